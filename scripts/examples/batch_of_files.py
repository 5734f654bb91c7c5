"""Process the files of a folder, several at a time.

python scripts/examples/batch_of_files.py recordings out --workers 2
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bgsub.jobs.batch import Entry, run_batch
from bgsub.jobs.job import Job


def make_job(source: str, output: Path) -> Job:
    """Return the job of one file; `Job` has all the options of ``bgsub run``."""
    return Job(source, output, save=("mask.png", "background-image"), parameters={"rank": 2})


def print_entry(entry: Entry) -> None:
    """Print the result of one file."""
    print(f"{Path(entry.source.path).name}: {entry.error or str(entry.result['frames']) + ' frames'}")


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="videos, and folders of images")
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, help="processes on this machine")
    options = parser.parse_args(arguments)
    run_batch(f"{options.folder}/*", options.output, workers=options.workers, make_job=make_job, progress=print_entry)


if __name__ == "__main__":  # needed: the worker processes import this file
    main()
