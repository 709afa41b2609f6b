"""Which rows a replica works on, batch by batch, for loops of the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tfdist.data.order import epoch_order
from tfdist.data.split import batch_count, part_bounds
from tfdist.errors import ConfigError
from tfdist.problems import is_whole


class DistributedSampler:
    """Gives the numbers of the rows that one replica works on, one global batch after the other.

    The same orders and parts as in `tfdist.fit`: in each epoch every row is on exactly one replica, and the
    global batches are the same for any number of replicas. The last batch of an epoch is smaller where the
    rows do not fill it; no row comes twice to fill it up. A replica for which a batch has no row left gets an
    empty array, so that all replicas take the same number of steps.

    Each loop over the sampler reads one epoch, and the next loop the next one; no call is needed in between.
    A loop that was left early goes on where it stopped.

    Args:
        rows: Rows in the data set.
        global_batch_size: Rows in a global batch.
        replica: Which replica, from 0.
        replicas: How many there are.
        shuffle: Whether each epoch has an order of its own, from `(seed, epoch)`.
        seed: Seed of the orders, the same on every replica.
        drop_remainder: Whether to leave out the last batch of an epoch where it is smaller.

    Raises:
        ConfigError: An argument is out of range.

    Example:
        >>> [rows.tolist() for rows in DistributedSampler(10, 4, replica=1, replicas=2, shuffle=False)]
        [[2, 3], [6, 7], [9]]
    """

    def __init__(
        self,
        rows: int,
        global_batch_size: int,
        *,
        replica: int = 0,
        replicas: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_remainder: bool = False,
    ) -> None:
        _require("rows", rows, 0)
        _require("global_batch_size", global_batch_size, 1)
        _require("replicas", replicas, 1)
        _require("replica", replica, 0)
        _require("seed", seed, 0)
        if replica >= replicas:
            raise ConfigError(
                f"replica={replica} is not one of {replicas} replicas, which are counted from 0.",
                f"pass a replica from 0 to {replicas - 1}",
            )
        self._rows, self._batch_size = int(rows), int(global_batch_size)
        self._replica, self._replicas = int(replica), int(replicas)
        self._shuffle, self._seed = bool(shuffle), int(seed)
        whole, all_ = self._rows // self._batch_size, batch_count(self._rows, self._batch_size)
        self._batches = whole if drop_remainder else all_
        self._epoch = 0
        self._next = 0

    @property
    def epoch(self) -> int:
        """Number of the epoch that the next loop reads, or goes on reading."""
        return self._epoch

    def __len__(self) -> int:
        """Gives the number of global batches in an epoch."""
        return self._batches

    def set_epoch(self, epoch: int) -> None:
        """Goes to the beginning of an epoch."""
        _require("epoch", epoch, 0)
        self._epoch, self._next = int(epoch), 0

    def __iter__(self) -> Iterator[np.ndarray]:
        """Gives this replica's rows of each batch that is left in the epoch, int64 of shape `(rows,)`."""
        epoch = self._epoch
        order = epoch_order(self._rows, self._seed, epoch) if self._shuffle else np.arange(self._rows)
        while self._epoch == epoch and self._next < self._batches:
            begin = self._next * self._batch_size
            batch = order[begin : begin + self._batch_size]
            first, last = part_bounds(len(batch), self._replicas, self._replica)
            # Before it is handed out: a state that is saved while the batch is worked on goes on after it.
            self._next += 1
            yield batch[first:last]
        if self._epoch == epoch:
            self._epoch, self._next = epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Gives the position, after the batch that was handed out last; the same on every replica."""
        return {
            "epoch": self._epoch,
            "next_batch": self._next,
            "rows": self._rows,
            "global_batch_size": self._batch_size,
            "seed": self._seed if self._shuffle else None,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a position that `state_dict` gave, on any number of replicas.

        Raises:
            ConfigError: The position is one in other data, or in another order.
        """
        own = self.state_dict()
        if set(state) != set(own):
            raise ConfigError(
                f"This is no state of a sampler: {dict(state)!r}.", "pass what state_dict() of a sampler gave"
            )
        for name in ("rows", "global_batch_size", "seed"):
            if state.get(name) != own[name]:
                raise ConfigError(
                    f"The position is one with {name}={state.get(name)!r}, and this sampler has"
                    f" {name}={own[name]!r}, so the next rows would be others.",
                    f"make the sampler with {name}={state.get(name)!r}",
                )
        for name in ("epoch", "next_batch"):
            _require(name, state.get(name), 0)
        self._epoch, self._next = int(state["epoch"]), int(state["next_batch"])


def _require(name: str, value: Any, least: int) -> None:
    if not is_whole(value, least):
        raise ConfigError(
            f"{name} must be a whole number of at least {least}; received {value!r}.",
            f"for example {name}={max(least, 1)}",
        )
