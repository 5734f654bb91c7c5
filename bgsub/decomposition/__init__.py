"""Robust PCA of whole files: videos, images and matrices in, their low-rank and sparse parts out."""

from __future__ import annotations

from bgsub.decomposition.fitting import Decomposition, decompose
from bgsub.decomposition.matrices import is_matrix, read_matrix
from bgsub.decomposition.run import DecompositionJob, DecompositionResult, run_decomposition
from bgsub.decomposition.samples import FrameSamples, MatrixSamples, Samples
from bgsub.decomposition.stack import read_frames

__all__ = [
    "Decomposition",
    "DecompositionJob",
    "DecompositionResult",
    "FrameSamples",
    "MatrixSamples",
    "Samples",
    "decompose",
    "is_matrix",
    "read_frames",
    "read_matrix",
    "run_decomposition",
]
