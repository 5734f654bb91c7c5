"""Names and results from a stranger: what commands print, write and show in a browser, and damaged lists of events."""

import csv
import itertools
import json
import os
import random
import shlex
import shutil
import sys
import tracemalloc
from functools import partial
from pathlib import Path

import pytest
from cli_inputs import make_scene
from event_scenes import STORED
from live_fakes import beside, repeating
from receiver import receiving
from scoring import scored
from video_fakes import write_video

from bgsub.cli import invoke
from bgsub.errors import SinkError
from bgsub.events.results import write_overview
from bgsub.events.search import search_results
from bgsub.video.regions import Regions

NAMES = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "a\r\nbgsub: error: b",
    "\u202egpj.\u2066\u2028",
    "=cmd|'!A0",
    "\udcff\udcfe",
    "{name} %s%n {{ 7*7 }} {view} $(touch pwned) `id`",
    *("+1+2", "-rf", "@SUM(A1)", "\t=1", "\"'&", "a;b,c", "é" * 120, "x" * 240, "  two  spaces ", ".hidden", "--help"),
]
QUICK = ("--start-frames", "10", "--min-event-length", "0")


@pytest.fixture
def place(here, monkeypatch):
    """A working folder with one for results."""
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)  # as on a terminal
    (here / "out").mkdir()
    return here


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    return write_video(tmp_path_factory.mktemp("film") / "film.avi", make_scene(50, 48, 64, empty=20))


def region_of(name):
    """Return the name as that of a region, in which some signs have another meaning."""
    return "".join(sign for sign in name if sign not in "=,;/\\").strip() or "x"


def ask(words, capsys):
    """Return the exit code and the output of a command, and what is wrong about its messages."""
    code = invoke([str(word) for word in words])
    out, err = capsys.readouterr()
    problems = [] if code in (0, 2) else [f"exit code {code}"]
    if not all(sign.isprintable() or sign == "\n" for sign in out + err):
        problems.append("control characters")
    if "Traceback" in err or err.count("\n") != (code == 2):
        problems.append(f"not one line: {err}")
    return code, out, problems


def commands_of(name, film):
    """Yield commands that record and search a film with that name."""
    file = name.replace("/", "")
    video, out, region = f"./{file}.avi", f"out{file}", f"{region_of(name)}=0,0,100%,100%"
    shutil.copy(film, video)
    listed = ("--event-formats", "csv,jsonl,html,pictures", "--record", f"{out}/clips", "--snapshots", f"{out}/shots")
    yield from (
        ("track", video, "-o", out, *listed, "--roi", region, *QUICK),
        ("track", video, "-o", out, *listed, *QUICK),
        ("scan", video, "--csv", "found.csv", "--log", "log.txt", *QUICK),
        ("scan", f"./no{file}"),
        ("scan", video, "--roi", name),
        ("scan", video, "--motion-threshold", f"{name}=1%"),
        ("scan", video, "--on-event", f"echo {{{region_of(name)}}}"),
        ("search", out, "--region", region, "--csv", "searched.csv"),
        ("overview", out, "--title", name),
        ("overview", ".", "-o", f"{file}.html"),
    )


@scored("hostile names of files, folders and regions")
def test_names_neither_control_the_terminal_nor_become_formulas_nor_break_files(place, film, capsys, tries):
    for name in NAMES[: tries(8, len(NAMES))]:
        for words in commands_of(name, film):
            problems = ask(words, capsys)[2]
            yield (words[0], name.encode(errors="surrogateescape"), problems), not problems
    for path in Path().rglob("*.csv"):
        cells = [cell for row in csv.reader(path.read_text("utf-8").splitlines()) for cell in row]
        yield (path, cells), not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in cells)
    yield "log", all(line[:2] == "20" for line in Path("log.txt").read_text("utf-8").splitlines())
    yield "shell", not Path("pwned").exists()


HOOK = "import json, os, sys; print(json.dumps([sys.argv[1:], sys.stdin.read()]), file=open(f'{os.getpid()}.got', 'w'))"
HOOKED = ["a\x1b]0;x\x07\nbgsub: $(touch pwned)", "a'; touch pwned; '", '"; touch pwned #']
HOOKED += ["{event} {no} {", "-rf", "a\\ b"]


@scored("hostile names in hooks")
def test_names_stay_arguments_of_hooks(place, film, capsys, tries):
    """No shell, no more arguments, no placeholders in values; the messages of hooks and servers are single lines."""
    words = [sys.executable, "-c", HOOK, "{source}", "a{regions}b", "--name={source}{event}", "{snapshot}"]
    noisy = ["--on-event", "sh -c 'printf %s \"$1\" >&2; exit 3' sh {source}", "--webhook"]
    for name in dict.fromkeys([*HOOKED, *NAMES[: tries(4, len(NAMES))]]):
        file, region = name.replace("/", ""), region_of(name)
        shutil.copy(film, f"{file}.avi")
        options = ["-o", f"out{file}", "--snapshots", f"out{file}", "--on-event", f"snapshot:{shlex.join(words)}"]
        options += ["--roi", f"{region}=0,0,100%,100%"] if region.isprintable() else []
        with receiving([b"HTTP/1.0 500 \x1b[2J\nx\r\n\r\n"]) as server:
            options += [*noisy, server.address] if name == HOOKED[0] else []  # it is tried for some seconds
            code = invoke(["track", f"./{file}.avi", *options, "--log", "log.txt", *QUICK])
        err = capsys.readouterr().err
        got = [json.loads(path.read_text()) for path in place.glob("*.got")]
        (arguments, text), *more = got
        snapshot = json.loads(text)["snapshot"].encode(errors="replace")
        regions = f"a{region if region.isprintable() else ''}b"
        is_right = arguments[:3] == [file, regions, f"--name={file}motion"] and not more
        is_right &= arguments[3].encode(errors="replace") == snapshot and Path(arguments[3]).is_file()
        is_clean = all(sign.isprintable() or sign == "\n" for sign in err)
        yield (code, got, err), is_right and is_clean and code == 0 and not Path("pwned").exists()
        os.remove(next(place.glob("*.got")))
    lines = Path("log.txt").read_text("utf-8").splitlines()
    yield lines, all(line[:2] == "20" for line in lines) and "exit code 3: bgsub" in "".join(lines)


LINE = {**STORED, "began": "", "regions": ["door"], "picture": "objects/000001.jpg", "frames": 2}
LINE["track"] = {**STORED["track"], "area": [25, 25]}
CLIPS = "file,start,end,peak_share,began,source,thumbnail\na.mp4,0,1,0.1,2026-01-02T03:04:05,x.mp4,a.jpg\n"
VALUES = [None, True, -1, 2**31, 2**63, 10**400, 1e308, float("nan"), float("inf"), "", "1", [], [[]], {}, "\ud800"]
VALUES += [[1, 2], [64], [0, -5], ["a"] * 200_000, "x" * 200_000, [[0] * 4] * 3, [[1e30] * 4] * 2, "\0", "../" * 9]


def replaced():
    """Yield lists of one event, in which each value is another one."""
    for key in (*LINE, *LINE["track"]):
        for value in VALUES:
            record = json.loads(json.dumps(LINE))
            (record if key in record else record["track"])[key] = value
            yield json.dumps(record).encode(), CLIPS.encode()


def mutated(chance):
    """Return a list of events and one of clips; one of them is cut, or has other or more bytes somewhere."""
    texts = [bytearray(json.dumps(LINE) * 2, "ascii"), bytearray(CLIPS, "ascii")]
    text = chance.choice(texts)
    at, way = chance.randrange(len(text)), chance.randrange(3)
    if way == 0:
        del text[at:]
    elif way == 1:
        text[at] = chance.randrange(256)
    else:
        more = [b"[" * 50_000, b"9" * 5_000, b"\0" * 100, b'"' * 3, b"\n", b"\xff\xfe", b"," * 70_000]
        text[at:at] = chance.choice(more)
    return texts


@scored("damaged lists of events and clips")
def test_damaged_lists_of_events_are_read_or_refused_in_one_line(place, capsys, tries):
    cases = itertools.chain(replaced(), map(mutated, map(random.Random, range(tries(100, 5000)))))
    for events, clips in cases:
        Path("out/events.jsonl").write_bytes(events)
        Path("out/clips.csv").write_bytes(clips)
        for words in (("overview", "out"), ("search", "out", "--region", "a=0,0,30,48", "--json")):
            code, out, problems = ask(words, capsys)
            is_read = words[0] == "overview" or code or json.loads(out) is not None
            yield (bytes(events[:300]), words[0], problems), not problems and is_read


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_only_files_are_read_as_results(place, capsys):
    """A named pipe would block the command without end."""
    for name in ("events.jsonl", "clips.csv"):
        os.mkfifo(place / "out" / name)
    code, _, problems = ask(("overview", "out"), capsys)
    assert (code, problems) == (2, [])


def test_lists_name_only_files_in_their_folder(place, score):
    """The pages and tables name no others, also not by links."""
    (place / "out/objects").mkdir()
    (place / "secret.jpg").touch()
    (place / "out/link.jpg").symlink_to(place / "secret.jpg")
    (place / "out/up").symlink_to(place)
    hostile = ["../secret.jpg", "objects/../../secret.jpg", str(place / "secret.jpg"), "link.jpg", "up/secret.jpg"]
    hostile += ["..", "up", "../" * 50 + "etc/passwd", "//host/x.jpg", "a\0/../../x", "~/../../x", "../out-of-it/x.jpg"]
    names = [*hostile, "objects/1.jpg", "objects/../2.jpg"]
    Path("out/events.jsonl").write_text("".join(json.dumps({**LINE, "picture": name}) + "\n" for name in names))
    rows = [f"{file},0,1,0,,,{name}\n" for file, name in [*((name, name) for name in hostile), ("a.mp4", "a.jpg")]]
    Path("out/clips.csv").write_text("file,start,end,peak_share,began,source,thumbnail\n" + "".join(rows))
    write_overview(place / "out", place / "page.html")
    events = json.loads(Path("page.html").read_text().partition('id="data">')[2].partition("</script>")[0])
    linked = {event[key] for event in events for key in ("picture", "clip")} - {""}
    good = {"out/objects/1.jpg", "out/2.jpg", "out/a.mp4", "out/a.jpg"}
    found = {row["picture"] for row in search_results(place / "out", Regions(["a=0,0,30,48"]))}
    searched = {str(place / "out" / name) for name in names[-2:]} | {None}
    score("paths out of the folder of a list", [(linked, linked == good), (found, found == searched)])


def peak_memory(function, *arguments):
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_memory_of_an_overview_does_not_grow_with_the_events(place, tries, score, monkeypatch):
    monkeypatch.setattr("bgsub.events.results.MOST", 100)
    count = tries(2_000, 100_000)
    (place / "first").mkdir()
    (place / "first/events.jsonl").write_text(json.dumps(LINE))
    write_overview(place / "first", place / "first/o.html")  # reads the template
    peaks = []
    for number in (count // 20, count):
        folder = place / str(number)
        folder.mkdir()
        events = ({**LINE, "id": n, "start_frame": n, "regions": [f"{n:05d}" * 1000]} for n in range(number))
        (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        peaks.append(peak_memory(write_overview, folder, folder / "o.html"))
    score("memory of an overview of many events", [(peaks, peaks[1] < 1.5 * peaks[0])])


def test_a_line_without_end_takes_little_memory(place, capsys, score):
    with Path("out/events.jsonl").open("wb") as file:
        file.write(b'{"type":"object","track":{"box":[' + b"[]," * 11_000_000)

    peak = peak_memory(invoke, ["overview", "out"])
    out, err = capsys.readouterr()
    survived = (out, err.count("\n"), peak < 200 << 20) == ("", 1, True)
    score("a line of 33 MB in a list of events", [((peak, err), survived)])


def test_a_page_that_several_runs_write_is_whole_at_any_time(place, tries, score):
    """One writes it; the others write it later, or are refused."""
    titles = ["a" * 50_000, "b" * 100_000, "c" * 300_000]
    (place / "out/events.jsonl").write_text(json.dumps(LINE) + "\n")
    page, wrong = place / "page.html", []
    for title in titles:
        write_overview(place / "out", place / title[0], title)
    pages = [(place / title[0]).read_bytes() for title in titles]
    page.write_bytes(pages[0])

    def write(title):
        for _ in range(tries(60, 3000)):
            try:
                write_overview(place / "out", page, title)
            except SinkError as error:
                wrong.extend([] if "is being written by another run" in str(error) else [str(error)])

    def read():
        found = page.read_bytes()
        wrong.extend([] if found in pages else [f"a page of {len(found)} bytes"])

    with repeating(read), beside(*(partial(write, title) for title in titles)):
        pass
    score("several writers of one page", [(title[0], not wrong) for title in titles])
    assert sorted(path.name for path in place.iterdir()) == ["a", "b", "c", "out", "page.html"]


@pytest.mark.browser
@scored("pages with hostile names in a browser")
def test_no_script_of_a_name_runs_in_a_browser(place, film, capsys, tries):
    """In the pages of runs and of the overview: no dialog, no error, and all texts as they are."""
    pages_of_the_run = pytest.importorskip("test_page", reason="needs the package playwright")
    names = NAMES[: tries(8, len(NAMES))]
    for name in names:
        for words in commands_of(name, film):
            if words[0] in ("track", "overview"):
                ask(words, capsys)
    pages = [*place.rglob("*.html")]
    (place / "out/odd").mkdir()
    odd = ({"id": n, "regions": [name], "picture": name} for n, name in enumerate(names, 1) if "\udcff" not in name)
    (place / "out/odd/events.jsonl").write_text("".join(json.dumps({**LINE, **one}) + "\n" for one in odd))
    write_overview(place / "out/odd", place / "odd.html", "<script>alert(1)</script>")
    with pages_of_the_run.browsing(refused=True) as page:
        dialogs = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        for path in [*pages, place / "odd.html"]:
            page.goto(path.as_uri().replace("%00", ""))
            for button in page.query_selector_all("button.picture")[:2]:
                button.click()
            foreign = page.evaluate("document.querySelectorAll('img[onerror], script[src], iframe, object').length")
            yield (path.name.encode(errors="surrogateescape"), dialogs, foreign), not dialogs and not foreign
        options = page.query_selector_all("#region option")[1:]
        for option in options:  # each filter finds its events
            page.select_option("#region", value=option.evaluate("one => one.value"))
            yield option.evaluate("one => one.value"), page.locator("figure").count() == 1
