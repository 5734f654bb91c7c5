"""The examples in the docstrings of robust PCA do what they show."""

import doctest
import importlib

import pytest
from rpca_planted import needs_compiler


@needs_compiler
@pytest.mark.parametrize("name", ["estimator", "fitted", "sklearn_conventions", "progress"])
def test_examples(name):
    module = importlib.import_module(f"bgsub.robust_pca.{name}")
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed
