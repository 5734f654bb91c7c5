"""Cameras that send too much, too little, too late or what leads elsewhere: they are lost, and come back."""

from __future__ import annotations

import logging
import struct
import time
import zlib
from contextlib import suppress

import pytest
from hostile_camera import HEAD, JPEGS, MULTIPART, HostileCamera, grey_jpeg, part, peak_memory
from video_fakes import make_frames, wait_first, write_video

from bgsub.errors import SourceError
from bgsub.video import CameraSource
from bgsub.video.sources.opening import open_source

OK = b"HTTP/1.1 200 OK\r\n"
GOOD = MULTIPART + b"".join(map(part, JPEGS[:3]))
MOST_MEMORY = 300  # MB more at any time; without a limit it would be what the network brings in ten seconds
PATIENCE = 30  # seconds after which an attack counts as lost


def patched(width, height):
    """A JPEG file whose header lies about its size."""
    jpeg = JPEGS[0]
    size = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:size] + struct.pack(">HH", height, width) + jpeg[size + 4 :]


def bombed():
    """300 MB of zeros behind a JPEG file, compressed piece by piece."""
    packer = zlib.compressobj(1, wbits=31)
    return b"".join(map(packer.compress, [JPEGS[0], *[bytes(1_000_000)] * 300])) + packer.flush()


# What comes as fast as it is taken.
FLOODS = {
    "part of 2 GB, sent": lambda line: (line.send(GOOD + part(JPEGS[0], 2**31 - 1)), line.flood(bytes(1 << 20))),
    "part of -1 bytes": lambda line: (line.send(GOOD + part(JPEGS[0], -1)), line.flood(bytes(1 << 20))),
    "part without end": lambda line: (
        line.send(GOOD + b"--frame\r\nContent-Type: image/jpeg\r\n\r\n" + JPEGS[0][:-2]),
        line.flood(b"\1" * (1 << 20)),
    ),
    "part header without end": lambda line: (line.send(GOOD + b"--frame\r\n"), line.flood(b"X: y\r\n" * 10000)),
    "boundary without end": lambda line: (line.send(GOOD + b"--"), line.flood(b"a" * (1 << 20))),
    "JPEG without end": lambda line: (
        line.send(HEAD + b"image/jpeg\r\n\r\n" + JPEGS[0] + JPEGS[1][:-2]),
        line.flood(b"\1" * (1 << 20)),
    ),
    "answer of 2 GB": lambda line: (
        line.send(OK + b"Content-Length: 2147483647\r\n\r\n" + JPEGS[0][:-2]),
        line.flood(b"\1" * (1 << 20)),
    ),
    "recording of 8 EB": lambda line: (
        line.send(HEAD + b"video/mp4\r\nAccept-Ranges: bytes\r\nContent-Length: 9223372036854775807\r\n\r\n"),
        line.send(struct.pack(">I4s", 2**31, b"ftyp") + b"isom"),
        line.flood(bytes(1 << 20)),
    ),
    "chunk of 2^60": lambda line: (
        line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n"),
        line.flood(b"\1" * (1 << 20)),
    ),
    "status without end": lambda line: line.flood(b"HTTP/1.1 200 " + b"O" * (1 << 20)),
    "header without end": lambda line: (line.send(OK), line.flood(b"X-Field: value\r\n" * 10000)),
    "field of 10 MB": lambda line: line.send(OK + b"X: " + b"y" * 10_000_000 + b"\r\n\r\n"),
    "redirect to itself": lambda line: line.send(b"HTTP/1.1 302 F\r\nLocation: /video\r\nContent-Length: 0\r\n\r\n"),
    "redirect of 2 GB": lambda line: (
        line.send(b"HTTP/1.1 302 F\r\nLocation: /video\r\nContent-Length: 2147483647\r\n\r\n"),
        line.flood(bytes(1 << 20)),
    ),
    "redirect to nowhere": lambda line: line.send(b"HTTP/1.1 302 F\r\nLocation: http://[\r\n\r\n"),
    "question for a password": lambda line: line.send(b"HTTP/1.1 401 U\r\nWWW-Authenticate: Digest \xff\r\n\r\n"),
    "gzip bomb": lambda line: line.send(HEAD + b"image/jpeg\r\nContent-Encoding: gzip\r\n\r\n" + bombed()),
    "zeros": lambda line: line.flood(bytes(1 << 20)),
    "zeros for a picture": lambda line: (line.send(HEAD + b"image/jpeg\r\n\r\n"), line.flood(bytes(1 << 20))),
    "TLS": lambda line: line.flood(b"\x16\x03\x01\x00\xa5\x01" * 1000),
}
# What keeps whoever reads waiting.
SILENCES = {
    "part of 2 GB, not sent": lambda line: (line.send(GOOD + part(JPEGS[0], 2**31 - 1)), line.wait()),
    "length of 10^40": lambda line: (line.send(OK + b"Content-Length: 1%s\r\n\r\n" % (b"0" * 40)), line.wait()),
    "negative length": lambda line: (line.send(OK + b"Content-Length: -5\r\n\r\n"), line.wait()),
    "chunk of -1": lambda line: (line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n"), line.wait()),
    "chunk size, dripping": lambda line: (line.send(OK + b"Transfer-Encoding: chunked\r\n\r\n"), line.drip(b"1" * 99)),
    "silence": lambda line: line.wait(),
    "silence after the header": lambda line: (line.send(MULTIPART), line.wait()),
    "header, dripping": lambda line: line.drip(OK + b"X" * 999),
    "pictures, dripping": lambda line: (line.send(GOOD + part(JPEGS[0])[:200]), line.drip(JPEGS[0][200:])),
    "JPEG of 60000x60000 in its header": lambda line: (
        line.send(MULTIPART + part(patched(60000, 60000)) * 3),
        line.wait(),
    ),
    "JPEG of 14000x14000": lambda line: (line.send(MULTIPART + part(grey_jpeg(14000)) * 2), line.wait()),
    "HTTP/0.9": lambda line: (line.send(JPEGS[0]), line.wait()),
}


def survives(attack, timeout, caplog, circular=False):
    """Whether good pictures come after an attack, in time and within the memory; why not, else."""
    begin = time.monotonic()
    # It takes eleven times to be led around in a circle.
    with HostileCamera(attack, lambda number: number <= (11 if circular else 1)) as camera, peak_memory() as peak:
        try:
            with CameraSource(camera.address, open_timeout=timeout, read_timeout=timeout, reconnect=PATIENCE) as source:
                for frames, _ in enumerate(source):  # the good ones of the second connection, without end
                    if len(camera.asked) > 1 and frames > 10:
                        break
        except SourceError as error:
            return f"given up: {error}"
        if time.monotonic() - begin > PATIENCE:
            return f"it took {time.monotonic() - begin:.0f} s"
        if peak() > MOST_MEMORY:
            return f"it took {peak():.0f} MB"
    return "" if "again in" in caplog.text else "no word of it in the log"


@pytest.mark.parametrize("name", [*FLOODS, *SILENCES])
def test_a_hostile_camera_is_lost_and_comes_back(name, caplog, monkeypatch, tries, score):
    wait_first(monkeypatch, 0.05)
    attack, timeout = (FLOODS[name], 6) if name in FLOODS else (SILENCES[name], 0.8)
    lost, count = [], tries(1, 10)
    for _ in range(count):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "bgsub"):
            lost += filter(None, [survives(attack, timeout, caplog, name == "redirect to itself")])
    print(lost)
    score(f"camera: {name}", count, count - len(lost))


def hls(place: str) -> bytes:
    return b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n" + place.encode() + b"\n#EXT-X-ENDLIST\n"


def concat(place: str) -> bytes:
    return f"ffconcat version 1.0\nfile '{place}'\n".encode()


def dash(place: str) -> bytes:
    start = '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
    kind = 'mediaPresentationDuration="PT2S" profiles="urn:mpeg:dash:profile:isoff-live:2011"><Period>'
    where = f'<Representation id="1" bandwidth="1000"><BaseURL>{place}</BaseURL></Representation>'
    return f'{start}{kind}<AdaptationSet mimeType="video/mp4">{where}</AdaptationSet></Period></MPD>'.encode()


SDP = b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 5999 RTP/AVP 26\r\n"
SECRET = "video/mp2t\r\n\r\nnothing for cameras"


def leads(place: str) -> dict[str, bytes]:
    """Answers of a camera that lead to another place, which is no camera of ours."""
    return {
        **{
            f"redirect {code}": b"HTTP/1.1 %d F\r\nLocation: %s\r\n\r\n" % (code, place.encode()) for code in (301, 307)
        },
        "HLS": HEAD + b"application/vnd.apple.mpegurl\r\n\r\n" + hls(place),
        "HLS as a picture": HEAD + b"image/jpeg\r\n\r\n" + hls(place),
        "HLS behind a tag": HEAD + b"video/mp4\r\n\r\nID3\3\0\0\0\0\0\7" + bytes(7) + hls(place),
        "concat": HEAD + b"text/plain\r\n\r\n" + concat(place),
        "DASH": HEAD + b"application/dash+xml\r\n\r\n" + dash(place),
        "SDP": HEAD + b"application/sdp\r\n\r\n" + SDP,
    }


@pytest.mark.parametrize("kind", ["network", "file", "tcp", "ftp"])
def test_a_camera_leads_to_no_other_place(tmp_path, kind, score):
    video = write_video(tmp_path / "other.avi", make_frames(8, 48, 64), codec="MJPG")
    followed, answers = [], {}
    with HostileCamera(lambda line: line.send(HEAD + SECRET.encode())) as other:
        # By its name this machine is another host than by its number.
        places = {"network": f"http://localhost:{other.port}/other.ts", "file": video.as_uri()}
        place = places.get(kind, f"{kind}://127.0.0.1:{other.port}/other.ts")
        answers = leads(place)
        for name, answer in answers.items():
            with HostileCamera(lambda line, answer=answer: line.send(answer), lambda _: True) as camera:
                try:
                    CameraSource(camera.address, open_timeout=5, read_timeout=5).close()
                except SourceError:
                    followed += [name] * bool(other.asked)
                else:
                    followed.append(name)
            other.asked.clear()
    print(followed)
    score(f"camera leads elsewhere: {kind}", len(answers), len(answers) - len(followed))


def test_a_file_leads_to_no_other_place(tmp_path, score):
    write_video(tmp_path / "near.avi", make_frames(8, 48, 64), codec="MJPG")
    followed, count = [], 0
    with HostileCamera(lambda line: line.send(HEAD + SECRET.encode()), lambda _: True) as other:
        for place in (f"http://127.0.0.1:{other.port}/other.ts", str(tmp_path / "near.avi"), "near.avi"):
            for number, content in enumerate((hls(place), concat(place), dash(place), SDP)):
                for ending in ("avi", "mp4", "ts", "m3u8", "ffconcat", "mpd", "sdp"):
                    path = tmp_path / f"stranger{number}.{ending}"
                    path.write_bytes(content)
                    count += 1
                    with suppress(SourceError), open_source(path) as source:
                        followed.append((path.name, place, sum(1 for _ in source)))
        assert other.asked == []
    print(followed)
    score("file leads elsewhere", count, count - len(followed))


def test_whoever_names_a_playlist_has_it_followed(tmp_path):
    video = write_video(tmp_path / "part.ts", make_frames(8, 48, 64), codec="MPG2").read_bytes()

    def answer(line):
        playlist = b"m3u8" in line.camera.asked[-1]
        line.send(
            HEAD + (b"application/vnd.apple.mpegurl\r\n\r\n" + hls("part.ts") if playlist else b"\r\n\r\n" + video)
        )

    with HostileCamera(answer, lambda _: True) as camera:
        address = camera.address + ".m3u8?token=secret"
        with CameraSource(address, open_timeout=5, read_timeout=5, reconnect=False) as source:
            assert next(iter(source)).image.shape == (48, 64, 3)


def test_a_camera_of_rtsp_that_leads_in_a_circle_is_given_up_in_time():
    def answer(line):
        line.send(b"RTSP/1.0 302 F\r\nCSeq: 1\r\nLocation: rtsp://%s\r\n\r\n" % line.camera.place.encode())

    begin = time.monotonic()
    with HostileCamera(answer, lambda _: True) as camera, pytest.raises(SourceError, match=r"does not answer|nobody"):
        CameraSource(f"rtsp://{camera.place}", open_timeout=1, read_timeout=1)
    assert time.monotonic() - begin < 10
