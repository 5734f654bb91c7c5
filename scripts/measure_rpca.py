"""Relative error of the low-rank part and time of RobustPCA on planted matrices with the true rank given.

X = L + S, m = n, L of unit variance, S uniform in [-5, 5] on a share of the entries; by default the paper's schedules.
Usage: python scripts/measure_rpca.py [--size 400] [--seeds 3] [--observed 1.0] [--quality paper] [--float32]
"""

from __future__ import annotations

import time

import click
import numpy as np

from bgsub import RobustPCA
from bgsub.robust_pca.parameters import QUALITIES
from bgsub.synthetic import low_rank_plus_sparse

CELLS = ((0.05, 0.10), (0.20, 0.20), (0.05, 0.45), (0.40, 0.05), (0.25, 0.20))
SURROGATES = ("lp", "log", "atan")


@click.command()
@click.option("--size", default=400, show_default=True, help="m = n.")
@click.option("--seeds", default=3, show_default=True, help="Matrices per cell; the median error counts.")
@click.option("--observed", default=1.0, show_default=True, help="Share of the entries that are observed.")
@click.option("--quality", type=click.Choice(QUALITIES), default="paper", show_default=True)
@click.option("--float32", is_flag=True, help="Compute in float32.")
def main(size: int, seeds: int, observed: float, quality: str, float32: bool) -> None:
    """Print the table."""
    click.echo(f"{'k/m, outlier share':20s}" + "".join(f"{name:>24s}" for name in SURROGATES))
    for rank_share, outlier_share in CELLS:
        row = f"{rank_share:.2f}, {outlier_share:.2f}".ljust(20)
        for surrogate in SURROGATES:
            errors, seconds = [], []
            for seed in range(seeds):
                rank = round(rank_share * size)
                X, L, _, mask = low_rank_plus_sparse(
                    size, size, rank, outlier_share, seed=seed, observed_share=observed
                )
                model = RobustPCA(rank=rank, surrogate=surrogate, quality=quality)
                begin = time.perf_counter()
                model.fit(X.astype(np.float32) if float32 else X, observed=mask)
                seconds.append(time.perf_counter() - begin)
                errors.append(np.linalg.norm(model.low_rank_ - L) / np.linalg.norm(L))
            row += f"{np.median(errors):10.1e} <{max(errors):.1e} {np.median(seconds):4.1f} s"
        click.echo(row)


if __name__ == "__main__":
    main()
