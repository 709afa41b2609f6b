"""Where in its data a run stands, so that another process can go on with the next unread row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tfdist.data.source import Source
from tfdist.errors import ConfigError


@dataclass(frozen=True)
class Position:
    """The next step of a run and the next batch of its data.

    It does not depend on the number of tasks or replicas, unless each task reads rows of its own.

    Attributes:
        epoch: Number of the epoch, from 0.
        step: Steps of it that are done.
        reading: Number of the pass through the data, which settles the order of the rows.
        batch: Batches of it that are done.
        seed: Seed of the run.
        data: What the data was like; see `Source.describe`.
        state: See `Source.state`.
        fingerprint: Of the batch done last; None where `data` settles which rows it holds.
    """

    epoch: int
    step: int
    reading: int
    batch: int
    seed: int
    data: Mapping[str, Any]
    state: Any = None
    fingerprint: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Gives the position as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Position:
        """Reads what `to_dict` gave.

        Raises:
            ConfigError: It is something else.
        """
        try:
            made = cls(**given)
        except TypeError as error:
            raise _no_position(given) from error
        numbers = (made.epoch, made.step, made.reading, made.batch, made.seed)
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise _no_position(given)
        if not isinstance(made.data, Mapping):
            raise _no_position(given)
        return made

    @property
    def is_between_epochs(self) -> bool:
        """Whether an epoch has ended and the next has not begun."""
        return self.step == 0 and self.batch > 0

    def checks(self, source: Source) -> bool:
        """Tells whether to read the batch before the position, to see that it is the one from before."""
        return self.batch > 0 and not source.order_is_known

    def require_fingerprint(self, found: float | None) -> None:
        """Refuses to go on in data whose last batch was another.

        Args:
            found: The fingerprint of the batch before the position; None where the data ended before it.

        Raises:
            ConfigError: It is not that of this position.
        """
        if found == self.fingerprint:
            return
        what = "ends before it" if found is None else "has other rows there"
        raise ConfigError(
            f"Training cannot go on after batch {self.batch} of pass {self.reading + 1} through the data: the"
            f" data of this process {what}.",
            "pass the same data, and seed its order (shuffle(…, seed=7), sorted file names). A dataset that"
            " shuffles and repeats in one pass has no order to go on in: raise epochs instead of repeat(n)",
        )


def _no_position(given: Any) -> ConfigError:
    return ConfigError(f"This is no position in the data: {given!r}.", "pass what Trainer.position gave")


def begin_reading(source: Source, epoch: int, start: Position | None) -> None:
    """Makes a source read an epoch from its beginning, or from a position in it.

    Args:
        source: The data.
        epoch: Number of the epoch.
        start: Where to begin. The batch before it is read as well where `start.checks(source)`.

    Raises:
        ConfigError: The data is not that of the position, or cannot be read from the middle.
    """
    if start is None:
        source.begin_epoch(epoch)
        return
    if source.position_unknown:
        raise ConfigError(
            f"Training cannot go on in the middle of its data: {source.position_unknown}.",
            "pass arrays, a tf.data.Dataset, a PyDataset or a dataset_fn",
        )
    own = source.describe()
    for name, value in own.items():
        if start.data.get(name) != value:
            raise ConfigError(
                f"The position is one in data with {name}={start.data.get(name)!r}, not {value!r} as here.",
                "pass the same data with the same global_batch_size and shuffle",
            )
    if source.batches is not None and start.batch > source.batches:
        raise ConfigError(
            f"The position is after batch {start.batch}, and the data has {source.batches} batches.",
            "pass what Trainer.position gave, and the same data",
        )
    source.restore(start.state, start.batch > 0)
    source.begin_epoch(epoch, start.batch - 1 if start.checks(source) else start.batch)
