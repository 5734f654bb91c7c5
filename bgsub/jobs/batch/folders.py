"""Folders of results: how an attempt gets its final name, and whose they are."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from bgsub.errors import BgsubError, SinkError
from bgsub.jobs.batch.finding import RECORD
from bgsub.jobs.batch.task import Outcome
from bgsub.jobs.identity import InputState
from bgsub.storage.durable_io import sync_folder


def publish(target: Path, outcome: Outcome, source: Path, state: InputState) -> tuple[str, bool]:
    """Give the folder of an attempt its final name; what stood there from an earlier run goes.

    Returns
    -------
    error : str
        Why it cannot be done; empty when it is.
    passing : bool
        Whether the failure may have gone when tried again.
    """
    attempt, old = target.with_name(outcome.attempt), target.with_name(f".{target.name}.old-{uuid.uuid4().hex}")
    try:
        if InputState.of(source) != state:
            return f"'{source}' changed while it was read", False
        if not attempt.is_dir():
            return f"the results of worker {outcome.worker} are not seen here; workers must see the same paths", True
        check_own(target)
        with suppress(FileNotFoundError):
            os.rename(target, old)
        os.rename(attempt, target)
        sync_folder(target.parent)
    except BgsubError as error:
        return str(error), False
    except OSError as error:
        return f"'{target}' cannot be written: {error.strerror or error}", True
    shutil.rmtree(old, ignore_errors=True)
    return "", False


def check_own(target: Path) -> None:
    """Refuse to replace what is no result of a batch; SinkError names it."""
    if target.is_dir() and ((target / RECORD).is_file() or not any(target.iterdir())):
        return
    if os.path.lexists(target):
        raise SinkError(f"'{target}' is in the way and no result of a batch; move it, or choose another folder")


def read_record(target: Path) -> dict[str, Any]:
    """Return what a finished folder says of itself; nothing where there is none."""
    try:
        record = json.loads((target / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
