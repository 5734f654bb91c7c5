"""What a graduated fit is given: data, limits, and how patiently mu falls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.settings import Settings


@dataclass(frozen=True)
class Pace:
    """How patiently mu falls.

    A fit has settled when a step of curvature one would gain less than the share `rest` of mu per observed entry in
    each sample and each feature: the inner tolerance, which tightens with mu. The mean over all of them would not do: a
    sample or a feature with few entries that lags behind is taken for outliers for good when mu falls.
    """

    unsettled: float  # factor of mu after `hold` steps where the fit has not settled
    settled: float  # least factor of mu after one step where it has
    rest: float
    hold: int  # steps to wait for it
    idle: float  # at the last mu, steps that gain less than this share of mu per entry end the fit
    ridge: float  # its strength
    doubts: bool = False  # whether a fit that leaves noise is followed by the next one, too


_FAST = Pace(0.95, 0.05, 3e-3, 3, 1e-4, 1.2)
_PATIENT = Pace(0.95, 0.1, 1e-3, 2, 1e-5, 1.2)
_BEST = Pace(0.98, 0.5, 3e-4, 2, 1e-6, 1.2, doubts=True)
PACES = {  # of the fits of a quality, one after another until one leaves nothing but outliers
    "fast": (_FAST,),
    "balanced": (replace(_FAST, idle=_PATIENT.idle), _PATIENT, replace(_PATIENT, ridge=1.7)),
    "best": (_BEST, replace(_BEST, ridge=1.7), replace(_BEST, ridge=0.8)),
}
COMPLETION = (Pace(0.6, 0.05, 3e-3, 1, 1e-4, 1.2),)  # where one factor is known already


def paces_of(quality: str, *, complete: bool) -> tuple[Pace, ...]:
    """Return the paces of a quality; with entries missing, where a fast fit may end wrong, without that."""
    return PACES[quality] if complete or quality != "balanced" else PACES[quality][1:]


@dataclass(frozen=True)
class Task:
    """The data, the cost and the limits of a fit."""

    settings: Settings  # rule and generator are taken from them
    cost: RobustCost  # data and mask; its surrogate is the one of the result
    unit: float  # the scale of the data, in which they are rounded
    paces: tuple[Pace, ...]  # of the fits, see `PACES`
    first: float | None  # widths (`Surrogate.scale`) to begin and to end with; None takes them from the data
    last: float | None
    tolerance: float  # end when the scale of the residual is below this share of that of the data
    budget: Iterator[int]  # one item for each step that may be taken, by all fits together
    bound: bool = True  # the rank may be below the one given
