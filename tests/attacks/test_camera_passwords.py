"""The password of a camera goes to the host of its address only, and only behind a certificate that is verified."""

import socket

import pytest
from camera_servers import BASIC, CERTIFICATE, HttpCamera, RtspCamera, add_tls
from live_fakes import serving
from scoring import failure_of, scored
from video_fakes import make_frames, write_video

from bgsub.cli import invoke
from bgsub.jobs.job import Job
from bgsub.live import LiveSession
from bgsub.video import CameraSource
from bgsub.video.sources.camera_address import file_name

TIMES = {"open_timeout": 5, "read_timeout": 5, "reconnect": False}
DIGEST = 'Digest realm="door", qop="auth", nonce="abc", opaque="x"'


def error_of(address, **options):
    """Return the message if a camera cannot be opened, an empty text if it can."""
    return failure_of(lambda: CameraSource(address, **TIMES, **options).close())


@pytest.fixture
def video(tmp_path):
    return write_video(tmp_path / "a.ts", make_frames(100, 48, 64), codec="MPG2").read_bytes()


@pytest.mark.parametrize("scheme", ["https", "rtsps"])
@pytest.mark.parametrize("ask", [BASIC, DIGEST], ids=["basic", "digest"])
@scored("impostor behind {scheme}")
def test_an_impostor_gets_no_password(scheme, ask, video, monkeypatch, tries):
    with serving(HttpCamera(ask) if scheme == "https" else RtspCamera(video, BASIC)) as server:
        add_tls(server)
        for _ in range(tries(2, 50)):
            for trusted, host, reason in (
                (False, "localhost", "self-signed certificate"),
                (False, "127.0.0.1", "self-signed certificate"),
                (True, "127.0.0.1", "not valid for '127.0.0.1'"),
            ):
                server.requests.clear()
                monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE) if trusted else "")
                error = error_of(f"{scheme}://me:secret@{host}:{server.port}/x")
                told = reason in error and "--insecure" in error and "\n" not in error
                yield (trusted, host, error), told and not server.requests
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert error_of(f"{scheme}://me:secret@localhost:{server.port}/x") == ""
        monkeypatch.delenv("SSL_CERT_FILE")
        assert error_of(f"{scheme}://me:secret@127.0.0.1:{server.port}/x", insecure=True) == ""
        assert server.secrets


def test_a_camera_without_verification_is_marked(tmp_path, capsys):
    job = Job("https://me:secret@gate/x", ".", save=(), insecure=True)
    with LiveSession([job], window=False, page={"port": 0}) as session:
        (name,) = session.controls
        assert (name, file_name(name)) == ("https://gate/x (certificate not verified)", "gate-x")
    with serving(HttpCamera()) as server:
        add_tls(server)
        place = f"localhost:{server.port}/x"
        command = ["run", f"https://me:secret@{place}", "-o", str(tmp_path), "--duration", "1"]
        assert (invoke(command), server.requests) == (2, [])
        assert invoke([*command, "--insecure"]) == 0
        assert capsys.readouterr().out.startswith(f"stream 'https://{place}' (certificate not verified): ")


def test_a_playlist_without_verified_parts_is_refused(score):
    with serving(HttpCamera(BASIC)) as server:
        add_tls(server)
        errors = [error_of(f"https://me:secret@localhost:{server.port}/x.{kind}") for kind in ("m3u8", "mpd")]
        score("playlist over https", [(error, "--insecure" in error and not server.requests) for error in errors])


def places(server, other, secure):
    """Return addresses to which a redirect must not carry a password."""
    return [
        f"http://localhost:{server.port}/x",  # another name
        f"http://127.0.0.1:{other.port}/x",
        f"http://localhost:{other.port}/x",
        f"http://me:secret@localhost:{other.port}/x",
        f"http://127.0.0.1:{other.port}@localhost:{other.port}/x",
        f"//localhost:{other.port}/x",
        f"HTTP://LOCALHOST:{other.port}/x",
        f"https://127.0.0.1:{secure.port}/x",
        f"https://127.0.0.1:{server.port}/x",  # another scheme
        f"rtsp://127.0.0.1:{other.port}/x",
        f"ftp://127.0.0.1:{other.port}/x",
        f"http://127.0.0.1.:{other.port}/x",
        f"http://[::ffff:127.0.0.1]:{other.port}/x",
        f"http://2130706433:{other.port}/x",
        f"http:/\\localhost:{other.port}/x",
        "file:///etc/hostname",
        "http://127.0.0.1:99999/x",
        "http://[",
        "",
    ]


@pytest.mark.parametrize("ask", [BASIC, DIGEST], ids=["basic", "digest"])
@scored("redirect over http with a password")
def test_redirects_over_http_carry_no_password_elsewhere(ask, tries):
    with serving(HttpCamera(ask)) as server, serving(HttpCamera(ask)) as other, serving(HttpCamera(ask)) as secure:
        add_tls(secure)
        for code in (302, 307, *tries((), (301, 303, 308))):
            for place in places(server, other, secure):
                other.requests.clear()
                server.answer = lambda path, code=code, place=place: (code, {"Location": place})
                error = error_of(f"http://me:secret@127.0.0.1:{server.port}/x", insecure=True)
                clean = error and "\n" not in error and "secret" not in error
                yield (code, place, error), clean and not other.requests and not secure.secrets
        server.answer = lambda path: (302, {"Location": "x/y"}) if path == "/x" else (200, {})
        assert error_of(f"http://me:secret@127.0.0.1:{server.port}/x") == ""
        assert server.secrets


def test_https_is_not_redirected_to_http(score):
    with serving(HttpCamera()) as server, serving(HttpCamera()) as other:
        add_tls(server)
        server.answer = lambda _: (302, {"Location": f"http://localhost:{other.port}/x"})
        errors = [error_of(f"https://{user}localhost:{server.port}/x", insecure=True) for user in ("", "me:secret@")]
        score("redirect from https to http", [(error, "redirects to" in error) for error in errors])
        assert not other.requests
        other.answer = lambda _: (302, {"Location": f"https://localhost:{server.port}/y"})
        server.answer = None
        assert error_of(f"http://localhost:{other.port}/x", insecure=True) == ""
        assert "self-signed" in error_of(f"http://localhost:{other.port}/x")


@scored("playlist that leads elsewhere")
def test_redirects_of_playlists_carry_no_password():
    """FFmpeg itself reads playlists, and their parts."""
    parts = b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n%s\n#EXT-X-ENDLIST\n"
    with serving(HttpCamera(BASIC)) as server, serving(HttpCamera(BASIC)) as other:
        place = f"http://localhost:{other.port}/other.m3u8"
        answers = [(code, {"Location": place}) for code in (301, 302, 303, 307, 308)]
        answers += [(200, {"body": parts % place.encode()}), (200, {"body": parts % b"/part.ts"})]
        for code, fields in answers:
            server.answer = lambda path, code=code, fields=fields: (
                (302, {"Location": place}) if path == "/part.ts" else (code, dict(fields))
            )
            error = error_of(f"http://me:secret@127.0.0.1:{server.port}/x.m3u8")
            yield (code, fields, error), not other.secrets
        assert server.secrets


def redirects(other):
    """Return answers that send an RTSP client elsewhere; some are invalid, but FFmpeg follows them."""
    rest = f"\r\nCSEQ\r\nLocation: rtsp://localhost:{other.port}/x\r\n\r\n".encode()
    codes = [b"300 M", b"301 M", b"302 F", b"303 S", b"304 N", b"305 U", b"307 T", b"308 P", b"399 X"]
    odd = [b"+302 F", b"0302 F", b"00302 F", b"302", b"302\r", b"3\r02 F", b" 302 F", b"\t302 F", b"302.5", b"302F"]
    odd += [b"4294967598 F", b"-4294966994 F", b"\v302 F", b"\f302 F", b"0" * 60 + b"3021 F"]
    heads = [b"RTSP/1.0 " + code for code in (*codes, *odd)]
    heads += [b"RTSP/" + word + b" 302 F" for word in (b"", b"2.0", b"x" * 900, b"\r1.0")]
    heads += [b"RT\rSP/1.0 302 F", b" RTSP/1.0 302 F", b"\r\n\r\nRTSP/1.0 302 F", b"RTSP/1.0" + b" " * 1000 + b"302 F"]
    heads += [b"\r" * 70000 + b"RTSP/1.0 302 F", b"RTSP/1.0 " + b"\r" * 70000 + b"302 F", b"$\0\0\3abcRTSP/1.0 302 F"]
    heads += [b"RTSP/1.0 302 " + b"x" * 5000, b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\nRTSP/1.0 302 F"]
    answers = [head + rest for head in heads]
    return [*answers, b"RTSP/1.0 302 F\r\nCSEQ\r\n\r\n", answers[2].replace(b"\r", b""), answers[2].replace(b"L", b"l")]


@pytest.mark.parametrize("method", ["OPTIONS", "DESCRIBE", "SETUP", "PLAY"])
@scored("redirect over rtsp at {method}")
def test_redirects_over_rtsp_are_not_followed(video, method, tries):
    with serving(RtspCamera(video, BASIC)) as server, serving(RtspCamera(video, BASIC)) as other:
        for server.piece in (1 << 16, *tries((), (1, 2, 3, 5, 8, 11, 13, 100))):
            for answer in redirects(other):
                other.requests.clear()
                server.answer = lambda asked, answer=answer: answer if asked == method else None
                error = error_of(f"rtsp://me:secret@127.0.0.1:{server.port}/x")
                yield (answer[:60], error), "cannot be opened" in error and not other.requests
        server.answer = lambda _: None
        assert error_of(f"rtsp://me:secret@127.0.0.1:{server.port}/x") == ""


@scored("IPv6 address with a password")
def test_passwords_of_ipv6_addresses(video):
    class Http6(HttpCamera):
        host, address_family = "::1", socket.AF_INET6

    class Rtsp6(RtspCamera):
        host, address_family = "::1", socket.AF_INET6

    pairs = {"http": (Http6(BASIC), HttpCamera(BASIC)), "rtsp": (Rtsp6(video, BASIC), RtspCamera(video, BASIC))}
    for scheme, (six, four) in pairs.items():
        with serving(six) as server, serving(four) as other:
            address = f"{scheme}://me:secret@[::1]:{server.port}/x"
            yield address, error_of(address) == "" and server.secrets
            place = f"{scheme}://127.0.0.1:{other.port}/x"
            moved = f"RTSP/1.0 302 F\r\nCSEQ\r\nLocation: {place}\r\n\r\n".encode()
            moved = (302, {"Location": place}) if scheme == "http" else moved
            server.answer = lambda _, moved=moved: moved
            yield address, "redirects" in error_of(address) and not other.requests
