"""Helpers of the tests of the paper: errors, a rotating subspace, scripts and their files."""

import csv

import cv2
import numpy as np
from click.testing import CliRunner
from scipy.linalg import expm


def error(found, true):
    return np.linalg.norm(found - true) / np.linalg.norm(true)


def largest_sine(B, U):
    """Sine of the largest angle between the spans of two orthonormal bases."""
    return np.linalg.norm(B - U @ (U.T @ B), 2)


def follow_rotation(tracker, rng, planted, column):
    """Rotate a basis of (100, 3) step by step; `column` returns the arguments of `update`."""
    A = rng.standard_normal((100, 100))
    turn = expm(2e-5 * (A - A.T))
    B, errors = planted, []
    for _ in range(1500):
        B = turn @ B
        tracker.update(*column(B))
        errors.append(largest_sine(B, tracker.U))
    assert largest_sine(B, planted) > 0.2
    assert np.mean(errors[-300:]) < 0.05
    np.testing.assert_allclose(tracker.U.T @ tracker.U, np.eye(3), atol=1e-11)


def call(script, *arguments):
    result = CliRunner().invoke(script.main, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def rows_of(path):
    """Return the rows of a table without its settings."""
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))


def assert_picture(path):
    """Check that a figure is readable, large enough and not empty."""
    image = cv2.imread(str(path))
    assert image is not None
    assert image.shape[0] > 300
    assert image.shape[1] > 400
    assert len(np.unique(image[::5, ::5].reshape(-1, 3), axis=0)) > 20
