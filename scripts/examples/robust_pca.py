"""Robust PCA on a matrix: low rank plus gross errors in a tenth of the entries.

python scripts/examples/robust_pca.py --size 200 --rank 5 --outliers 0.1
"""

from __future__ import annotations

import argparse

import numpy as np

import bgsub


def main(arguments: list[str] | None = None) -> None:
    """Plant a matrix, corrupt it, and print how well plain and robust PCA find it again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--outliers", type=float, default=0.1)
    options = parser.parse_args(arguments)

    random = np.random.default_rng(0)
    n, k = options.size, options.rank
    truth = random.standard_normal((n, k)) @ random.standard_normal((k, n)) / np.sqrt(k)
    wrong = random.random((n, n)) < options.outliers
    given = np.where(wrong, random.uniform(-5, 5, (n, n)), truth)

    left, values, right = np.linalg.svd(given, full_matrices=False)
    plain = left[:, :k] * values[:k] @ right[:k]
    robust = bgsub.RobustPCA(rank=k).fit(given).low_rank_
    for name, found in (("PCA", plain), ("RobustPCA", robust)):
        print(f"{name:10} relative error {np.linalg.norm(found - truth) / np.linalg.norm(truth):.1e}")


if __name__ == "__main__":
    main()
