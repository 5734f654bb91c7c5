"""Adapters of other packages: those that are installed recover a planted matrix, the others are named."""

import numpy as np
import packages
import pytest

from bgsub.errors import DependencyError
from bgsub.synthetic import low_rank_plus_sparse


@pytest.mark.parametrize("name", list(packages.PACKAGES))
def test_installed_package_recovers(name, capsys):
    package = packages.PACKAGES[name]
    pytest.importorskip(package.module, reason=f"{package.module} is not installed")
    X, L, S, _ = low_rank_plus_sparse(100, 80, 3, 0.05, seed=1)
    found = package.solve(X, 3)
    assert np.linalg.norm(found.low_rank - L) < 1e-5 * np.linalg.norm(L)
    assert np.linalg.norm(found.sparse - S) < 1e-5 * np.linalg.norm(S)
    assert not capsys.readouterr().out


def test_absent_packages_are_named(monkeypatch):
    monkeypatch.setattr(packages, "find_spec", lambda module: None)
    for package in packages.PACKAGES.values():
        with pytest.raises(DependencyError, match=f"pip install {package.module}"):
            package.solve(np.eye(3), 1)
