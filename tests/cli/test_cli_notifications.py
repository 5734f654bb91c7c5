"""Commands and web addresses that are notified of motion, from the command line."""

import json
import shlex
import sys

from receiver import receiving, unused_address

QUICK = ("--start-frames", 8, "--rank", 2)  # the few frames of a test have motion


def appending(path):
    code = f"import sys; open({str(path)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))"
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


def test_run_notifies_commands_and_addresses(cli, video, tmp_path):
    got, pictures = tmp_path / "got", tmp_path / "pictures"
    with receiving([500]) as server:
        answer = cli(
            "run", video, "-o", tmp_path / "out", *QUICK, "--json",
            "--snapshots", pictures, "--webhook", f"{server.address}/x",
            "--on-event", f"{appending(got)} {{type}} {{event}} {{source}}",
            "--on-event", f"snapshot: {appending(got)} {{snapshot}}",
        ).ok()  # fmt: skip
        notifications = server.notifications()
    assert json.loads(answer.out)["notifications"] == {"delivered": 7, "lost": 0, "retried": 1}
    picture = pictures / "video-snapshot-0001.jpg"
    assert [(one["type"], one["snapshot"]) for one in notifications] == [
        ("start", None), ("start", None), ("snapshot", str(picture)), ("end", str(picture)),
    ]  # fmt: skip
    lines = [*(f"{kind} motion video" for kind in ("start", "snapshot", "end")), str(picture)]
    assert (sorted(got.read_text().splitlines()), picture.read_bytes()[:2]) == (sorted(lines), b"\xff\xd8")
    failed, works = answer.err.splitlines()
    assert failed.startswith(f"bgsub: webhook {server.address}: answers 500 Internal Server Error; ")
    assert works == f"bgsub: webhook {server.address} works again; notifications lost meanwhile: 0"


def test_lost_notifications_are_counted(cli, video, tmp_path, monkeypatch):
    monkeypatch.setattr("bgsub.events.notifications.sink.finish_all.__defaults__", (0.2,))  # seconds
    address = unused_address()
    answer = cli("run", video, "-o", tmp_path / "out", *QUICK, "--webhook", address, "--on-event", "start: true").ok()
    assert "; 1 notification delivered; 2 notifications lost; wrote " in answer.out
    assert answer.err.startswith(f"bgsub: webhook {address}: no answer: Connection refused; ")


def test_resumed_run_may_have_another_address(cli, video, tmp_path, after_frames):
    with receiving() as server:
        words = ("run", video, "-o", tmp_path / "out", "--resume", "--save", "mask.png", *QUICK)
        after_frames(20, 15)
        assert cli(*words, "--webhook", server.address).code == 143
        assert server.address.encode() not in (tmp_path / "out" / ".resume" / "state").read_bytes()
        cli(*words, "--webhook", f"{server.address}/new").ok()
        assert server.requests.queue[-1][0] == "/new"
