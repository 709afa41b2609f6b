"""The order of the rows in an epoch: a function of the seed and the epoch alone, so every task computes the
same.
"""

from __future__ import annotations

import numpy as np


def epoch_order(rows: int, seed: int, epoch: int) -> np.ndarray:
    """Gives the shuffled order of an epoch.

    Args:
        rows: Rows in the data set.
        seed: Seed of the run, at least 0.
        epoch: Number of the epoch, from 0.

    Returns:
        A permutation of `range(rows)`, dtype int64, shape `(rows,)`. It comes from the counter-based
        generator Philox (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), so epochs are
        independent streams and any epoch is reached without computing those before it.

    Example:
        >>> sorted(epoch_order(4, seed=7, epoch=0).tolist())
        [0, 1, 2, 3]
    """
    return np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(rows)
