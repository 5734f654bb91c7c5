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

from bgsub.errors import did_you_mean

_MOVED = {
    "bgsub.batch": "bgsub.jobs.batch",
    "bgsub.decomposition": "bgsub.jobs.decomposition",
    "bgsub.detections": "bgsub.events",
    "bgsub.evaluation.summarize": "bgsub.evaluation.summarise",
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
    "bgsub.video.sinks.KeyCommands": "bgsub.live.window.KeyCommands",
    "bgsub.video.sinks.WindowSink": "bgsub.live.WindowSink",
}
# What nobody outside needs is no longer public: package, file in it, names.
_INSIDE = {
    ("bgsub.evaluation", "referee"): "Referee",
    ("bgsub.evaluation", "results"): "find_masks find_results",
    ("bgsub.evaluation", "speed"): "format_speed load_frames time_methods",
    ("bgsub.evaluation", "worst"): "WorstFrame WorstFrames",
    ("bgsub.evaluation.conditions", "_derived"): "Derived Recording",
    ("bgsub.evaluation.conditions", "_objects"): "load_background",
    ("bgsub.evaluation.conditions", "_table"): "Condition",
    ("bgsub.events", "create"): "create_event_sinks make_feed",
    ("bgsub.events", "sink"): "FORMATS",
    ("bgsub.jobs", "job"): "Statistics",
    ("bgsub.jobs", "outputs"): "make_sinks",
    ("bgsub.jobs", "run"): "execute make_subtractor",
    ("bgsub.jobs.decomposition", "fitting"): "decompose",
    ("bgsub.jobs.decomposition", "matrices"): "is_matrix read_matrix",
    ("bgsub.jobs.decomposition", "samples"): "FrameSamples MatrixSamples Samples",
    ("bgsub.jobs.decomposition", "stack"): "read_frames",
    ("bgsub.live", "display"): "NoWindowError",
    ("bgsub.live", "window"): "KeyCommands",
    ("bgsub.robust_pca", "parameters"): "default_rank",
    ("bgsub.synthetic", "_scene"): "Stage",
    ("bgsub.video", "sinks.stream"): "EncodedStreamSink Outlet RawStreamSink",
    ("bgsub.video", "sources.av_pipe"): "AvPipeSource",
    ("bgsub.video", "sources.pipe"): "Pipe",
    ("bgsub.video", "sources.raw"): "RawSource",
    ("bgsub.video", "sources.selection"): "SelectedSource",
}
_MOVED |= {f"{of}.{name}": f"{of}.{file}.{name}" for (of, file), names in _INSIDE.items() for name in names.split()}


def face(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names stand in the stub beside `file`."""
    find, names, public = lazy_loader.attach_stub(package, file)

    def get(name: str) -> Any:
        """Import the file that defines `name`, and return what it means."""
        if f"{package}.{name}" in _MOVED:
            raise ImportError(_line(f"{package}.{name}"))  # of an AttributeError, "from ... import" keeps no word
        if name not in public:
            near = "" if name.startswith("_") else did_you_mean(name, public)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")
        return find(name)

    return get, names, public


def inner(package: str) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a package without public names, which says where one is that had been looked for."""
    above = package.rpartition(".")[0]

    def get(name: str) -> Any:
        if name in sys.modules[above].__all__:
            _MOVED.setdefault(f"{package}.{name}", f"{above}.{name}")
        if f"{package}.{name}" in _MOVED:
            raise ImportError(_line(f"{package}.{name}"))
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def _line(name: str) -> str:
    return f"{name} has moved: it is {_MOVED[name]} now"


class _MovedFinder(importlib.abc.MetaPathFinder):
    """Asked last, when no module of a name is there."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Name the new home of a module that has moved."""
        if name in _MOVED:
            raise ModuleNotFoundError(_line(name), name=name)


sys.meta_path.append(_MovedFinder())
