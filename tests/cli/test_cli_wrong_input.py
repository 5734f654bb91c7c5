"""Wrong inputs: exit code 2 and one line with the wrong value and the allowed ones."""

import json
import shlex

import numpy as np
import pytest
from av_files import cut_packets, film, write_av
from cli_inputs import QUICK, make_scene, names
from video_fakes import read_video, write_images, write_video

from bgsub import BackgroundSubtractor
from bgsub._opencv import cv2


@pytest.fixture
def place(here):
    """A working folder with frames, an empty folder, and a file that is in the way."""
    (here / "taken").write_text("a file")
    (here / "empty").mkdir()
    write_images(here / "frames", make_scene(12, empty=12))
    return here


TAKEN = "cannot write into folder '{}': 'taken' is a file, not a folder"
NO_PIPE = "-o takes a folder here; bgsub run writes to standard output"
WRONG = {
    "run frames -o taken": TAKEN.format("taken"),
    "track frames -o taken/below": TAKEN.format("taken/below"),
    "live frames --no-window -o taken": TAKEN.format("taken"),
    "demo --duration 1 -o taken": TAKEN.format("taken"),
    "run frames -o out.AVI": "-o takes a folder, got the name of a file, 'out.AVI'",
    "track frames -o ''": "Invalid value for '-o' / '--output': the path is empty",
    "run '' -o out": "Invalid value for 'SOURCE...': the path is empty",
    "overview ''": "Invalid value for 'FOLDER': the path is empty",
    "search '' --region 1,2,3,4": "Invalid value for 'RESULTS': the path is empty",
    "bench --duration long": "--duration must be a number of frames (120), seconds (12.5 or 12s) or h:mm",
    "evaluate frames --json o.json": "bgsub evaluate ... --json > o.json",
    "fly": "No such command 'fly'; see bgsub --help",
    ".": "No such command '.'; bgsub scan . lists its motion, bgsub run . -o out writes masks",
    "rtsp://camera/1": "bgsub scan rtsp://camera/1 lists its motion",
    "rnu": "No such command 'rnu'; did you mean 'run'?; see bgsub --help",
    "run": "Missing argument 'SOURCE...'; see bgsub run --help",
    "run frames": "Missing option '-o' / '--output'",
    "run --motion 5%": "No such option '--motion'; did you mean '--motion-threshold'?",
    "run --config x": "No such option '--config'; put it before the command: bgsub --config;",
    "run --helpall": "No such option '--helpall'; did you mean '--help-all'?;",
    "bench frames --duration 1": "must have at least 2 frames to be timed, got 1",
    "bench frames more": "Got unexpected extra argument",
    "track frames -o out --start 60": "nothing between frame 60 and the end",
    "run frames -o out/deep --save mask.png --record clips --snapshots pictures --start 60": "nothing between frame 60",
    "regions frames --start 60": "nothing between frame 60 and the end",
    "regions missing.mp4": "no such file or folder: 'missing.mp4'",
    "scan missing.mp4": "no such file or folder: 'missing.mp4'",
    "scan frames --csv missing/motion.csv": "--csv takes a file in a folder that exists",
    "scan frames --csv taken": "--csv replaces only files that end in .csv",
    "scan frames --motion-threshold 'a lot'": "takes a share from 0 to 1 or in percent, or REGION=SHARE, got 'a lot'",
    "track frames -o out --max-object-width 120%": "Invalid value for '--max-object-width'",
    "scan frames --preset loud": "'loud' is not one of 'sensitive', 'calm', 'fast'",
    "live --no-window": "or nothing would show the result; see bgsub live --help",
    "live 0": "no window can be shown: neither DISPLAY nor WAYLAND_DISPLAY is set",
    "live 0 --duration 0": "--duration must be more than 0, got '0'",
    "live 0 --no-window --serve x": "--serve takes a port up to 65535, or host:port, got 'x'",
    "live 0 --no-window --serve 0 --token short": "token must be at least 8 letters",
    "live 0 --no-window --token correct-horse -o out": "--token needs --serve",
    "live 0 --no-window --event-formats csv --serve 0": "--event-formats needs --output",
    "live 0 --no-window -o out --name ../{view}": "--name: a name must be that of a file below the output folder",
    "live 0 1 --no-window -o out --save-model m": "a model file is for one camera, got several cameras",
    "live - - --no-window -o out": "each camera can be given once, got - twice",
    "live 0 1 --no-window -o -": "standard output takes one camera, got several",
    "run - - -o out": "'-' does not exist: several sources are the video files, or the images, of",
    "run frames -o - --record clips": "standard output takes the frames of one view (--save), no event files",
    "run - -o out --resume": "a run through a pipe cannot be resumed",
    "decompose frames -o -": NO_PIPE,
    "track frames -o -": NO_PIPE,
    "batch - -o out": "a batch takes files, got '-': bgsub run reads standard input",
    "batch nowhere.mp4 -o out": "no such file or folder: 'nowhere.mp4'",
    "batch . -o out --save-model sub/m.npz": "--save-model takes ",
    "batch . -o out --scheduler tcp://127.0.0.1:1 --workers 2": "--scheduler brings its own workers",
    "batch . -o out --rank 0": "--rank must be",
    "search nothing --region 0,0,5,5": "'nothing' does not exist",
    "search empty": "--region",
    "search empty --region 0,0,5,5": "no events.jsonl and no masks in 'empty' or below",
    "search empty --region 0,0,5": "--region: a region must be",
    "search empty --region 0,0,5,5 --from 12m": "--from: a time must be a number of frames",
    "search empty --region 0,0,5,5 --from 2s --to 1s": "--to must come after --from (2 s), got 1 s",
    "search empty --region a=0,0,5,5 --motion-threshold b=1%": "a motion threshold is for a region: a; got 'b'",
    "overview nothing": "no such folder: 'nothing'",
    "overview empty": "no events.jsonl and no clips.csv in folder 'empty' or below",
    "overview empty -o no/page.html": "takes a file in a folder that exists",
}
OF_RUN = {
    "--rank 0": "--rank must be an integer >= 1, got 0",
    "--forgetting 1": "--forgetting must be a number in (0, 1), got 1.0",
    "--min-area 500%": "--min-area must be a number in [0, 1], got 5.0",
    "--threshold 800%": "--threshold must be a number in [1e-06, 2], got 8.0",
    "--scale 150%": "--scale must be a number in [0.05, 1] or auto or fast, got 1.5",
    "--light dark": "--light must be true or false, got 'dark'",
    "--shadows of": "--shadows must be one of on, off, merged, or true or false, got 'of'; did you mean 'off'?",
    "--save mask --save panle": "--save: an output must be one of mask, background, ",
    "--progress none": "Invalid value for '--progress': 'none' is not one of 'auto', 'bar', 'log'; see",
    "--fps 0": "Invalid value for '--fps': 0.0 is not in the range 1e-06<=x<1000",
    "--fps 1000": "1000.0 is not in the range 1e-06<=x<1000",
    "--fps nan": "'nan' is not a finite number",
    "--record clips --pre-roll inf": "'inf' is not a finite number",
    f"--log {__file__}": "--log appends to logs of bgsub only, and",
    "--start soon": "--start must be a number of frames (120), seconds (12.5 or 12s) or h:mm:ss (1:02:03.5), got",
    "--start 5s --end 2s": "--end must come after --start (5 s), got 2 s",
    "--end 2s --duration 5": "use either --end or --duration, got --end 2 s and --duration frame 5",
    "--event-formats xml": "--event-formats takes csv, jsonl, html, pictures, got 'xml'",
    "--roi 1,2,3": "--roi: a region must be",
    "--ignore 9,9": "--ignore: a region must be",
    "--ignore 0,0,100%,100%": "the ignored regions cover all",
    "--roi 0,0,9,9 --roi door=8,8,10,10 --privacy 8,0,12,99 --privacy 9,0,20,50": (
        "the privacy regions cover region 'door', in which nothing can be"
    ),
    "--model frames": "the model frames is not a regular file",
    "--save-model gone/m.npz": "--save-model takes a file in a folder that exists, got 'gone/m.npz'",
    "--pre-roll 1": "--pre-roll needs --record",
    "--boxes --save mask": "--boxes needs --save panel, overlay or contours",
    "--max-object-area 20% --save panel": "--max-object-area needs --event-formats, --boxes",
    "--record c --min-object-time 1 --save mask": "--min-object-time needs --event-formats",
    "--record c --resume --save mask": "clips of motion cannot be resumed",
    "--record c --post-roll -1": "Invalid value for '--post-roll'",
    "--record c --max-clip-length 0": "Invalid value for '--max-clip-length'",
    "--record c --motion-threshold 2": "--motion-threshold: takes a share from 0 to 1 or in percent",
    "--record taken/below --save mask": "cannot write into folder 'taken/below': ",
    "--record clips": "nothing would be written to out: beside --record",
    "--max-events 2": "--max-events needs --record, --on-event",
}
OF_NOTIFICATIONS = {
    "--webhook gate": "--webhook: a webhook is an address http://HOST/... or https://HOST/..., got 'gate'",
    "--event-gap 1": "--event-gap needs --record, --on-event, --webhook or --snapshots",
    "--on-event no-such-program": "--on-event: there is no program 'no-such-program'",
    "--on-event 'echo {snapshot}'": "a command for snapshots needs a folder of them (--snapshots)",
}
WRONG |= {f"run frames -o out {options}": message for options, message in OF_RUN.items()}
for command in ("run frames -o out", "live frames --no-window", "track frames -o out"):
    WRONG |= {f"{command} {options}": message for options, message in OF_NOTIFICATIONS.items()}
for path in ("a/clips", "/clips", "."):
    WRONG[f"batch . -o out --record {path}"] = f"takes the name of a folder without a folder here, got '{path}'"


@pytest.mark.parametrize("line", WRONG)
def test_wrong_command_lines(cli, place, line):
    cli(*shlex.split(line)).refused(WRONG[line])
    assert (names(place), (place / "taken").read_text()) == (["empty", "frames", "taken"], "a file")


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_truncated_file(cli, tmp_path, resume):
    cut = write_video(tmp_path / "cut.avi", make_scene(40), codec="MJPG")
    data = cut.read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    words = cut, "-o", tmp_path / "out", "--save", "mask.npz", "--json"
    answer = cli("run", *words, *resume)
    result = json.loads(answer.out)
    assert (answer.code, result["stopped"], result["outputs"]) == (1, "broken", [str(tmp_path / "out" / "mask.npz")])
    assert answer.err.startswith(f"bgsub: error: video '{cut}' is cut short: it ends at ")
    assert answer.err.count("\n") == 1
    count = result["frames"]
    assert 10 < count < 30
    assert len(np.load(tmp_path / "out" / "mask.npz")["mask"]) == count
    assert cli("run", *words, "--resume").code == (1 if resume else 2)  # the run does not count as complete
    skipped = cli("run", *words, "--overwrite", "--on-error", "skip").ok()
    assert json.loads(skipped.out)["frames"] == count


def test_unreadable_file_with_a_wrong_frame_rate_is_one_line(cli, here):
    whole = write_av(here / "whole.mp4", film(5), [*range(5)], fps=12800, ticks=12800)
    assert cli("run", whole, "-o", "whole").ok().err.count("has 12800 frames per second, taken for 25") == 1
    noise = cut_packets(whole, here / "noise.mp4", set(range(5)))
    cli("run", noise, "-o", "out").refused(f"no frame of video '{noise}' can be decoded")
    cli("run", noise, "-o", "out", "--resume").refused("can be decoded")
    cli("run", whole, "-o", "out", "--resume").ok()
    (here / "list.m3u8").write_text("#EXTM3U\n")
    cli("scan", "list.m3u8").refused("'list.m3u8' is a playlist, which could lead to any file or address; give the")


def test_image_of_another_size(cli, tmp_path, folder):
    image = folder / "in000021.png"
    cv2.imwrite(str(image), cv2.imread(str(image))[:20, :30])
    message = f"frame in000021 of images '{folder}' is 30x20 colour uint8"
    answer = cli("run", folder, "-o", tmp_path / "out", "--save", "mask.mkv", "--save-model", tmp_path / "m.npz")
    assert answer.code == 1
    assert answer.err.startswith(f"bgsub: error: {message}, ")
    assert answer.out.endswith(f"wrote {tmp_path / 'out' / 'mask.mkv'}, {tmp_path / 'm.npz'}\n")
    assert len(read_video(tmp_path / "out" / "mask.mkv")) == 20
    assert not list(tmp_path.rglob("*.partial*"))
    skipped = cli("run", folder, "-o", tmp_path / "skipped", "--on-error", "skip").ok()
    assert ": 29 frames of 48x32; " in skipped.out
    assert "1 frame skipped as unreadable" in skipped.out
    assert skipped.err.startswith(f"bgsub: {message}, ")
    assert skipped.err.endswith("; skipped\n")
    words = ("--rank", 1, "--iterations", 5, "--on-error", "skip")
    assert "; 1 frame skipped" in cli("decompose", folder, "-o", tmp_path / "parts", *words).ok().out


def test_words_for_switches_and_percent_and_a_compressed_mask(cli, place):
    """``--light off`` and ``--min-area 5%`` mean what they say."""
    words = ("--light", "off", "--shadows", "off", "--min-area", "5%", "--threshold", "8%", "--scale", "50%")
    words += ("--save", "mask.mp4,panel.mp4", "--save-model", "model.npz")
    answer = cli("run", "frames", "-o", "out", *words, *QUICK).ok()
    assert answer.err.count("compressed with loss, to any value from 0 to 255; mask.mkv is exact") == 1
    assert answer.err.count("\n") == 1
    parameters = BackgroundSubtractor.load(place / "model.npz").get_params()
    chosen = {name: parameters[name] for name in ("light", "shadows", "min_area", "threshold", "scale")}
    assert chosen == {"light": False, "shadows": "off", "min_area": 0.05, "threshold": 0.08, "scale": 0.5}
