"""The kernels of a stream by the stage in which they are first used; in a stage, the slowest to compile come first.

A type is a scalar in Numba's abbreviation (``f4``, ``u1``, ...), an array with its dimensions (``f4_2``), or a tuple of
`RECORDS`; ``P`` is the type of the pixels, ``lanes`` and ``cost`` are constants of the channels and of the surrogate.
"""

from importlib import import_module
from typing import NamedTuple

from numba import types

from bgsub.scene._frame_kernels import CompareParams, Images, LearnParams
from bgsub.scene._match_kernels import MatchLimits, Samples
from bgsub.tracking.basis import Cost, Visit

RECORDS = {
    Cost: "cost, f4, f4",
    Images: "P_1, P_1, f4_1, u1_1, u1_1, u1_1",
    CompareParams: "f4, lanes, f4, f4, f4, f4",
    MatchLimits: "f4_2, f4, f4, f4, f4, f4, b1, f4, lanes",
    Samples: "i1_3, u1_2, i8, f4, f4",
    LearnParams: "f4, f4, f4",
    Visit: "f4_2, f4_2, f4_1, i8, i8",
}

_FIRST_FRAME = """
scene._start_colours_kernels.count_colours: i8, i8, lanes, P_2, f4_1, f4_3, u2_2, u1_1, u1_1
scene._frame_kernels.compare: i8, i8, f4_1, Images, CompareParams
scene._segment_kernels.find_solid: u1_2, u1_1, u1_2, u1_2, u1_2
scene._frame_kernels.learn_pixels: i8, i8, i8, i8, i8, Images, CompareParams, u1_1, LearnParams, f4_1
scene._match_kernels.remember: i8, i8, P_3, P_3, MatchLimits, u1_2, u2_2, i1_3, u1_1
"""
_START = """
scene._shadow_kernels.find_shadows: P_3, P_3, MatchLimits, f4_1, b1, f8_2, f8_2, i1_2, u1_2, u1_1, u1_2,\
 i1_2, u1_1, i2_2, i2_2
scene._segment_kernels.finish: P_3, P_3, u1_2, u1_1, u1_2, i8, i8, u1_2, f8_2, f8, i8, i4_2, i8_1, u1_1
scene._cast_shadow_kernels.learn_shadows: P_3, P_3, MatchLimits, u1_2, u1_1, b1, f8_2, f8_2, f8_3, f8_3, f4_1
scene._match_kernels.find_matching: i8, i8, P_3, P_3, MatchLimits, Samples, u1_2, u1_1, u8_1, u1_1
scene._registration_kernels.align: P_3, f8, f4_2, f4_2, f8, f8, f8_1, f4_1, f4_2, f8_2, f8_1
scene._match_kernels.clear_matching: P_3, P_3, MatchLimits, u1_2, u1_1, i8, f4, i4_3, i4_2, u1_1
scene._segment_kernels.keep_still: u1_2, u2_2, u1_1, i8, u1_2, u1_1
scene._segment_kernels.majority: u1_2, u1_1, i8, u2_1, u2_1, u1_2, u1_1
scene._frame_kernels.update_ages: i8, i8, lanes, P_3, u1_2, u1_1, u1_2, u1_2, f4, i8, i8, f4, P_2, u2_2, u1_1,\
 u1_2, u1_1
scene._cast_shadow_kernels.walk_in: lanes, i8, i8, P_3, P_3, f4, f4, u1_2, u1_2, f4_2
scene._frame_kernels.contrasts: P_1, P_3, i8_1
scene._frame_kernels.drift_sums: P_1, P_1, i8_1, u1_1, i8_2, f4_2, f4, f4, f8_2, f8_1, f8_1, f8_2
"""
_TRACKING = """
scene._frame_kernels.sweep: i8, i8, Visit, Cost, Images, u2_1, b1, CompareParams, f4_2, f8_2
tracking._step_kernels.deferred_step: f8_1, f8_2, f8_1, f8, f8, f8_1, f8_1, f8_1, f8_2, f8_3, f8_2, f8_2, f8_1, f4_2,\
 f4_1, f4_1, f4_1, f4_1
tracking._kernels.subset_coefficients: f4_2, f4_1, f4_1, cost, f4, f4, i8, f8, f8_1, f4_1, f8_1, f4_1, f4_1,\
 f4_1, f4_1, f8_2, f8_1
robust_pca._cost_kernels.cost_and_influence: f4_1, b1_1, cost, f4, f4, f4_1, f4_1
tracking._kernels.scale_rows: f4_2, f4_2, i8, f4_1, f8_2
tracking._kernels.weigh: f4_2, f4_2, cost, f4, f4, f4_2, f4_2
"""
_REDUCED = """
scene._reduction_kernels.trim: lanes, P_3, P_3, u1_2, u1_1, i8_1, u1_2
scene._reduction_kernels.enlarge: i8, i8, lanes, P_3, f4, P_3, P_3, f4, u1_2, i8_1, i8_1, f4_2, f4_2, u1_2, f4_2,\
 f4_2, f4_2, u1_1
"""
FIRST_FRAME, START, TRACKING = range(3)


class Frames(NamedTuple):
    """Properties of a stream that determine the types of its kernels."""

    dtype: str  # "uint8" or "float32"
    channels: int
    surrogate: int  # one of `bgsub.numerics.surrogates.CODES`
    is_reduced: bool = False


def stages(frames: Frames) -> list[list[str]]:
    """Return the rows of the kernels for the first frame, the start phase and tracking."""
    start = _START + _REDUCED.lstrip() if frames.is_reduced else _START
    return [stage.strip().splitlines() for stage in (_FIRST_FRAME, start, _TRACKING)]


def compile_kernel(row: str, frames: Frames) -> None:
    """Compile the kernel of a row of `stages`, or load it from the cache."""
    name, wanted = row.split(": ")
    module, function = name.rsplit(".", 1)
    getattr(import_module(f"bgsub.{module}"), function).compile(_typed(wanted, frames))


def _typed(wanted: str, frames: Frames) -> tuple[types.Type, ...]:
    known = {record.__name__: record for record in RECORDS}
    constants = {"lanes": frames.channels, "cost": frames.surrogate}

    def typed(word: str) -> types.Type:
        if word in known:
            record = known[word]
            parts = _typed(RECORDS[record], frames)
            if len(set(parts)) == 1:
                return types.NamedUniTuple(parts[0], len(parts), record)
            return types.NamedTuple(parts, record)
        if word in constants:
            return types.UniTuple(types.int64, constants[word])
        scalar, _, dimensions = word.partition("_")
        plain = getattr(types, frames.dtype if scalar == "P" else scalar)
        return types.Array(plain, int(dimensions), "C") if dimensions else plain

    return tuple(typed(word) for word in wanted.split(", "))
