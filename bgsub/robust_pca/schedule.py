"""What a graduated fit is given: data, limits, and how patiently mu falls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bgsub.robust_pca.cost import RobustCost
from bgsub.robust_pca.settings import Settings


@dataclass(frozen=True)
class Pace:
    """How patiently mu falls.

    Parameters
    ----------
    unsettled : float
        Factor of mu after `hold` steps where the fit has not settled.
    settled : float
        Least factor of mu after one step where it has.
    rest : float
        A fit has settled when a step of curvature one would gain less than this share of mu per observed entry in each
        sample and each feature: the inner tolerance, which tightens with mu. The mean over all of them would not do: a
        sample or a feature with few entries that lags behind is taken for outliers for good when mu falls.
    hold : int
        Steps to wait for it.
    idle : float
        At the last mu, steps that gain less than this share of mu per entry end the fit.
    ridges : tuple of float
        Strengths of the ridge; one fit for each, until one leaves nothing but outliers.
    doubts : bool
        Whether a fit that leaves noise is repeated with the next ridge, too.
    """

    unsettled: float
    settled: float
    rest: float
    hold: int
    idle: float
    ridges: tuple[float, ...]
    doubts: bool = False


PACES = {
    "fast": Pace(0.95, 0.05, 3e-3, 3, 1e-4, (1.2,)),
    "balanced": Pace(0.95, 0.1, 1e-3, 2, 1e-5, (1.2, 1.7)),
    "best": Pace(0.98, 0.5, 3e-4, 2, 1e-6, (1.2, 1.7, 0.8), doubts=True),
}
COMPLETION = Pace(0.6, 0.05, 3e-3, 1, 1e-4, (1.2,))  # where one factor is known already


@dataclass(frozen=True)
class Task:
    """The data, the cost and the limits of a fit.

    Parameters
    ----------
    settings : Settings
        Rule and generator are taken from them.
    cost : RobustCost
        Data and mask; its surrogate is the one of the result.
    pace : Pace
        One of `PACES`.
    first, last : float or None
        Widths (`Surrogate.scale`) to begin and to end with; None takes them from the data.
    tolerance : float
        End when the scale of the residual is below this share of that of the data.
    budget : iterator
        One item for each step that may be taken, by all fits together.
    """

    settings: Settings
    cost: RobustCost
    pace: Pace
    first: float | None
    last: float | None
    tolerance: float
    budget: Iterator[int]
