"""Write the tables of README.md and docs/measured.md from docs/results/*.csv: ``python scripts/docs_tables.py``.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``; its figures are in the CSV files alone.
"""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/measured.md")
_TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)
_IN_README = {("320x240", "1"), ("768x576", "1"), ("768x576", "2"), ("1920x1080", "2")}


def rows(name):
    """Return the rows of a file of results as dicts of str."""
    with open(ROOT / "docs" / "results" / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _short(number):
    return f"{number:.3f}".removeprefix("0")


def _cells(scores):
    """Return the scores of one row as text, the best causal one bold; the last one has looked ahead."""
    *causal, last = (round(score, 3) for score in scores)
    return [*(f"**{_short(score)}**" if score == max(causal) else _short(score) for score in causal), _short(last)]


def _mean(data, methods):
    return [sum(float(row[method]) for row in data) / len(data) for method in methods]


def accuracy():
    """Return the table of F by sequence and method."""
    data = rows("accuracy")
    methods = list(data[0])[2:]
    lines = [[row["sequence"], row["scene"], *_cells([float(row[method]) for method in methods])] for row in data]
    return [["sequence", "", *methods], *lines, ["mean", "", *_cells(_mean(data, methods))]]


def accuracy_short():
    """Return the mean that the README shows."""
    data = rows("accuracy")
    methods = list(data[0])[2:]
    return [["sequences", *methods], [str(len(data)), *_cells(_mean(data, methods))]]


def speed():
    """Return the table of milliseconds per frame."""
    lines = [["frames", "threads", "bgsub", "99th percentile", "MOG2", "KNN", "ViBe", "bgsub / MOG2"]]
    for row in rows("speed"):
        ratio = float(row["bgsub"]) / float(row["MOG2"])
        lines.append([*row.values(), f"{ratio:.2f}".removeprefix("0")])
    return lines


def speed_short():
    """Return the rows of the table of speed that the README shows, without the 99th percentile."""
    head, *lines = speed()
    short = [[row[0].removesuffix(" colour"), *row[1:3], *row[4:]] for row in lines]
    return [head[:3] + head[4:], *(row for row in short if (row[0], row[1]) in _IN_README)]


TABLES = {"accuracy": accuracy, "accuracy-short": accuracy_short, "speed": speed, "speed-short": speed_short}


def fill(text):
    """Return the text of a page with its tables updated."""

    def table(found):
        head, *lines = TABLES[found[2]]()
        text = "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])
        return f"{found[1]}{text.replace('|  |', '| |').replace('| --- ', '|---').replace('--- |', '---|')}\n{found[4]}"

    return _TABLE.sub(table, text)


if __name__ == "__main__":
    for page in PAGES:
        path = ROOT / page
        path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")
