"""Compare the motion events of ``bgsub scan`` and of DVR-Scan with labelled sequences.

A frame shows motion if at least 0.2 % of its mask is foreground. Each sequence DIR is first encoded as a video of 25
frames per second. DVR-Scan is used if ``dvr-scan`` is installed.
Usage: python scripts/scan_table.py DIR... [--dvr-scan PROGRAM].
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np

from bgsub.evaluation import Sequence
from bgsub.video.sinks.video import VideoSink, as_separation
from bgsub.video.sources.base import Frame

_FPS, _LEAST_SHARE = 25, 0.002
_ROW = re.compile(r"\|\s+Event\s+\d+\s+\|\s+([\d:.]+)\s+\|\s+[\d:.]+\s+\|\s+([\d:.]+)")

Spans = list[tuple[float, float]]


def encoded(sequence: Sequence, path: Path) -> dict[int, bool]:
    """Write a sequence as a video; return whether each frame with a mask shows motion, by index."""
    truth = {}
    with VideoSink(path, "background", _FPS) as sink:
        for index, (number, image) in enumerate(sequence.frames()):
            sink.write(Frame(index, "", index / _FPS, image), as_separation(image))
            labels = sequence.truth(number) if number in sequence.scored else None
            if labels is not None:
                truth[index] = bool(np.mean(labels == 255) >= _LEAST_SHARE)
    return truth


def scanned(path: Path) -> Spans:
    """Return the events of ``bgsub scan``, in seconds."""
    command = [sys.executable, "-m", "bgsub", "scan", str(path), "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(event["start"], event["end"]) for event in json.loads(answer.stdout)["motion"]]


def scanned_by_dvr_scan(program: str, path: Path) -> Spans:
    """Return the events of DVR-Scan, in seconds."""
    answer = subprocess.run([program, "-i", str(path), "-so"], capture_output=True, text=True, check=True)
    return [(_seconds(start), _seconds(end)) for start, end in _ROW.findall(answer.stdout + answer.stderr)]


def _seconds(text: str) -> float:
    hours, minutes, seconds = map(float, text.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def counts(spans: Spans, truth: dict[int, bool]) -> tuple[int, int, int]:
    """Return the numbers of frames with motion that are found, false and missed."""
    found = {index: any(a - 1e-6 <= index / _FPS <= b + 1e-6 for a, b in spans) for index in truth}
    pairs = [(found[index], moves) for index, moves in truth.items()]
    return pairs.count((True, True)), pairs.count((True, False)), pairs.count((False, True))


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@click.option("--dvr-scan", "program", default="dvr-scan", show_default=True, metavar="PROGRAM")
def main(folders: tuple[str, ...], program: str) -> None:
    """Print events and frames of each sequence: found, false, missed."""
    other = shutil.which(program)
    click.echo(f"{'sequence':24s} {'bgsub: events found false missed':>38s} {'DVR-Scan':>32s}")
    with tempfile.TemporaryDirectory() as place:
        for folder in folders:
            path = Path(place, "video.mp4")
            sequence = Sequence(folder)
            truth = encoded(sequence, path)
            cells = [spans_text(scanned(path), truth)]
            if other is not None:
                cells.append(spans_text(scanned_by_dvr_scan(other, path), truth))
            click.echo(f"{sequence.name:24s} " + " ".join(f"{cell:>34s}" for cell in cells))
            path.unlink()


def spans_text(spans: Spans, truth: dict[int, bool]) -> str:
    """Return the number of events and the counts of their frames."""
    return f"{len(spans):8d}" + "".join(f"{number:8d}" for number in counts(spans, truth))


if __name__ == "__main__":
    main()
