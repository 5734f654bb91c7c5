"""The files of a folder, several at a time with Dask, or one after the other where it is not installed.

python scripts/examples/batch_of_files.py recordings out --workers 2
"""

from __future__ import annotations

import argparse
from pathlib import Path

import bgsub
from bgsub.jobs.batch import Entry, run_batch
from bgsub.jobs.job import Job
from bgsub.jobs.run import run_job


def make_job(source: str, output: Path) -> Job:
    """Say what is to be made of one file; `Job` has all the options of ``bgsub run``."""
    return Job(source, output, save=("mask.png", "background-image"), parameters={"rank": 2})


def tell(entry: Entry) -> None:
    """Print what became of one file."""
    print(f"{Path(entry.source.path).name}: {entry.error or str(entry.result['frames']) + ' frames'}")


def one_by_one(folder: Path, output: Path) -> None:
    """Do what `run_batch` does in its simplest form: no second attempt, no manifest, nothing left out as done."""
    for file in sorted(folder.iterdir()):
        try:
            result = run_job(make_job(str(file), output / file.name))
        except bgsub.BgsubError as error:
            print(f"{file.name}: {error}")
        else:
            print(f"{file.name}: {result.summary.frames} frames")


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="videos, and folders of images")
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, help="processes on this machine")
    options = parser.parse_args(arguments)

    try:
        run_batch(f"{options.folder}/*", options.output, workers=options.workers, make_job=make_job, progress=tell)
    except bgsub.DependencyError as error:
        print(f"one by one, as {error}")
        one_by_one(options.folder, options.output)


if __name__ == "__main__":  # needed: the processes that run_batch starts import this file
    main()
