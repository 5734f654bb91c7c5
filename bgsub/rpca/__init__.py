"""Robust PCA of whole matrices: `RobustPCA`, the batch half of the method.

``estimator``, ``conventions``, ``parameters``, ``progress`` are what a user sees; ``descents`` starts what fits:
``graduated`` (with ``descent``, ``evidence``, ``pace``, ``parts``), ``alternation`` (the paper's) or ``continuation``
(new samples); all of them move on ``factors`` or ``halves`` by ``conjugate`` gradients or by ``reweighting``.
"""

from bgsub.rpca.estimator import RobustPCA, default_rank
from bgsub.rpca.progress import Progress

__all__ = ["Progress", "RobustPCA", "default_rank"]
