"""Lazy faces of the packages (Scientific Python's SPEC 1), and what has become of names that moved.

A package's public names stand in its ``__init__.pyi``, for type checkers and for `face` alike; the file that defines
a name is imported when the name is first used.
"""

import importlib.abc
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import lazy_loader

_MOVED = {
    "bgsub.batch": "bgsub.jobs.batch",
    "bgsub.decomposition": "bgsub.jobs.decomposition",
    "bgsub.detections": "bgsub.events",
    "bgsub.evaluation.write_json": "bgsub.evaluation.format_json",
    "bgsub.events.TimelineSink": "bgsub.events.SummarySink",
    "bgsub.grassmann": "bgsub.numerics.grassmann",
    "bgsub.frames": "bgsub.scene.frame_format",
    "bgsub.illumination": "bgsub.scene.illumination",
    "bgsub.notebook": "bgsub.video.notebook",
    "bgsub.objects": "bgsub.scene.standing_objects",
    "bgsub.outputs": "bgsub.video.output_names",
    "bgsub.regions": "bgsub.video.regions",
    "bgsub.rpca": "bgsub.robust_pca",
    "bgsub.scenes": "bgsub.scene.changes",
    "bgsub.segmentation": "bgsub.scene.segmentation",
    "bgsub.stabiliser": "bgsub.scene.stabiliser",
    "bgsub.surrogates": "bgsub.numerics.surrogates",
    "bgsub.timecode": "bgsub.video.timecode",
    "bgsub.tracker": "bgsub.tracking",
    "bgsub.video.Controls": "bgsub.jobs.Controls",
    "bgsub.video.Pipeline": "bgsub.jobs.Pipeline",
    "bgsub.video.Subtractor": "bgsub.jobs.Subtractor",
    "bgsub.video.Summary": "bgsub.jobs.Summary",
    "bgsub.video.WindowSink": "bgsub.live.WindowSink",
    "bgsub.video.pipeline": "bgsub.jobs.pipeline",
    "bgsub.video.process_video": "bgsub.process_video",
    "bgsub.video.separate": "bgsub.separate",
    "bgsub.video.sinks.MotionRules": "bgsub.events.MotionRules",
    "bgsub.video.sinks.RecorderSink": "bgsub.events.RecorderSink",
    "bgsub.video.sinks.KeyCommands": "bgsub.live.KeyCommands",
    "bgsub.video.sinks.WindowSink": "bgsub.live.WindowSink",
}


def face(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names stand in the stub beside `file`."""
    find, names, public = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        """Import the file that defines `name`, and return what it means."""
        if f"{package}.{name}" in _MOVED:
            raise ImportError(_line(f"{package}.{name}"))  # of an AttributeError, "from ... import" keeps no word
        return find(name)

    return get, names, public


def _line(name: str) -> str:
    return f"{name} has moved: it is {_MOVED[name]} now"


class _MovedFinder(importlib.abc.MetaPathFinder):
    """Asked last, when no module of a name is there."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Name the new home of a module that has moved."""
        if name in _MOVED:
            raise ModuleNotFoundError(_line(name), name=name)


sys.meta_path.append(_MovedFinder())
