"""A fitted subspace and new samples: their coefficients, and how well it predicts them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bgsub.errors import ParameterError
from bgsub.numerics.surrogates import Surrogate
from bgsub.robust_pca.irls import held_back_cost, robust_coefficients
from bgsub.robust_pca.parameters import checked
from bgsub.robust_pca.scale import clipped
from bgsub.robust_pca.sklearn_conventions import Estimator
from bgsub.robust_pca.validation import check_samples, check_scale, refuse_mask

_FIRST = 2.0  # first mu for new samples, in mean squares of the low-rank part


class FittedSubspace(Estimator):
    """What `bgsub.RobustPCA` does with samples after a fit; attributes as there."""

    components_: np.ndarray
    low_rank_: np.ndarray
    mu_: float
    mu_start: float | None

    def transform(self, X: np.ndarray, observed: np.ndarray | None = None) -> np.ndarray:
        """Return the robust coefficients of samples in the fitted subspace.

        Parameters
        ----------
        X, observed
            As for `fit`.

        Returns
        -------
        ndarray, (n_samples, k)
            Minimisers of the cost at the last mu of the fit, found from the least-squares fit by reweighted least
            squares with mu shrinking; no sample depends on another one. O(m n k^2) for each of some 20 to 100 steps.

        Raises
        ------
        ParameterError
            Before a fit, and for samples as in `fit`.
        """
        return robust_coefficients(*self._regression(X, None, observed))

    def score(self, X: np.ndarray, y: object = None, *, observed: np.ndarray | None = None) -> float:
        """Return how well the subspace predicts entries of samples from the others; the higher the better.

        Parameters
        ----------
        X, y, observed
            As for `fit`.

        Returns
        -------
        float
            Mean over the observed entries of ``-h_mu(X - L)`` plus ``h_mu(0)``, mu the last one of the fit: 0 at most.
            Each fifth of the entries of a sample is held back while its coefficients are found from the others, or a
            higher rank would always score better. For the choice of a rank set `mu_end`, so that all scores have the
            same mu, to about ``(2.4 sigma)^2`` for noise of standard deviation sigma.

        Raises
        ------
        ParameterError
            As `transform`.
        """
        return -held_back_cost(*self._regression(X, y, observed))

    def inverse_transform(self, Y: np.ndarray) -> np.ndarray:
        """Return the low-rank samples, (n_samples, n_features), for coefficients `Y`, (n_samples, k)."""
        self._check_fitted()
        Y = np.asarray(Y)
        if Y.ndim != 2 or Y.shape[1] != len(self.components_):
            raise ParameterError(f"Y must have shape (n_samples, {len(self.components_)}), got {Y.shape}")
        return Y @ self.components_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _new_samples(self, X: np.ndarray, y: object, observed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return samples and their mask, checked against the fit."""
        refuse_mask(X, y)
        samples, observed = check_samples(X, observed)
        check_scale(samples, observed, small=True)
        self._check_features(X, samples.shape[1])
        return samples, observed

    def _regression(self, X: np.ndarray, y: object, observed: np.ndarray | None) -> tuple[Any, ...]:
        """Return what `robust_coefficients` takes: samples, mask, basis, cost at the last mu and first mu."""
        self._check_fitted()
        surrogate = checked(self).surrogate
        samples, observed = self._new_samples(X, y, observed)
        last = replace(surrogate, mu=self.mu_)
        U = self._basis(samples.dtype)
        return clipped(samples, observed), observed, U, last, self._first_mu(surrogate)

    def _basis(self, dtype: np.dtype) -> np.ndarray:
        return np.ascontiguousarray(self.components_.T, dtype)

    def _first_mu(self, surrogate: Surrogate) -> float:
        """Return the mu from which it falls for samples after a fit: hardly any residual is an outlier there."""
        if self.mu_start is not None:
            return max(self.mu_start, self.mu_)
        mean = float(np.mean(np.square(self.low_rank_, dtype=np.float64)))
        return replace(surrogate, mu=self.mu_).widened(np.sqrt(_FIRST * mean)).mu
