"""What users pass as data, read as one global batch after the other.

Every task builds the same source; each replica then works on its part of each global batch.

    source            rows are reached     an epoch's order            can start at any batch
    IndexedSource     by number            (seed, epoch)               at once
    SequenceSource    a batch at a time    (seed, epoch)               at once
    DatasetSource     one after another    the dataset's own           by reading up to it
    IterableSource    one after another    the iterable's own          by reading up to it
    DatasetFnSource   one after another    the function's, per task    by reading up to it

A generator can be read once only, so a run on one cannot go on in the middle.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.data.batch import Part, take_part
from tfdist.errors import ConfigError

# Converting our own functions would take longer than many a small epoch.
as_it_is = tf.autograph.experimental.do_not_convert

READ_AHEAD = 4  # batches

Transform = Callable[[tuple[Any, ...]], tuple[Any, ...]]


class Source(ABC):
    """Data as global batches `(x[, y[, sample_weight]])`.

    Attributes:
        batches: Global batches in an epoch; `None` where only reading to the end tells.
        rows: Rows in an epoch; `None` where only reading to the end tells.
        rows_per_batch: Rows in a full global batch; `None` where only reading tells.
        endless: Whether an epoch has no end.
        transform: Applied to each batch inside the pipeline (class weights).
        replayable: Whether an epoch can be read from its beginning more than once.
        per_task: Whether each task reads rows of its own instead of a part of the same batches.
        order_is_known: Whether `describe` settles which rows are in which batch. Where it does not, a
            fingerprint of the rows tells whether they are those of another reading.
        is_compared: Whether tasks found out that they have the same.
        position_unknown: Why reading cannot start in the middle; empty where it can.
    """

    batches: int | None = None
    rows: int | None = None
    rows_per_batch: int | None = None
    endless: bool = False
    transform: Transform | None = None
    replayable: bool = True
    per_task: bool = False
    order_is_known: bool = False
    is_compared: bool = False
    position_unknown: str = ""

    def __init__(self) -> None:
        self._pipelines: dict[Any, tf.data.Dataset] = {}
        self._skip = 0

    @abstractmethod
    def global_batches(self, skip: int) -> tf.data.Dataset:
        """Makes the dataset of batches, as they come; each iterator of it reads the current epoch.

        Args:
            skip: Batches to leave out at the beginning.
        """

    def begin_epoch(self, epoch: int, skip: int = 0) -> None:
        """Makes the iterators that are created from now on read epoch `epoch`, from batch `skip` on."""
        del epoch  # for sources whose own order decides
        self._skip = skip

    def describe(self) -> dict[str, Any]:
        """Tells what the position of a batch depends on, ready for JSON: another reading has to have the
        same.
        """
        return {"batches": self.batches}

    def state(self) -> Any:
        """Gives what restoring the position needs besides the numbers of the epoch and the batch, ready for
        JSON.
        """
        return None

    def restore(self, state: Any, begun: bool) -> None:  # noqa: B027 - most need nothing
        """Gets ready for the reading that `state` was given in, or after which it was given.

        Args:
            state: What `state` gave.
            begun: Whether the next reading is that one, to be gone on with; else it is the one after it.
        """

    def pipeline(
        self,
        key: Any = None,
        convert: Callable[[tuple[Any, ...]], Any] = lambda data: data,
        read_ahead: int = 0,
    ) -> tf.data.Dataset:
        """Gives the dataset of batches, each converted in some way; made once, since making it takes longer
        than small epochs.

        Args:
            key: Names the way.
            convert: Turns a batch `(x[, y[, sample_weight]])` into what is wanted of it.
            read_ahead: Batches to read ahead.
        """

        def prepare(*data: Any) -> Any:
            batch = with_equal_rows(as_batch(data))
            return convert(batch if self.transform is None else self.transform(batch))

        def make() -> tf.data.Dataset:
            dataset = self.global_batches(self._skip)
            require_plain_tensors(dataset.element_spec)
            dataset = dataset.map(as_it_is(prepare), num_parallel_calls=1)
            return dataset.prefetch(read_ahead) if read_ahead else dataset

        return self._made_once(key, make)

    def parts(self, replicas: Sequence[int], total_replicas: int, fingerprint: bool) -> tf.data.Dataset:
        """Gives the current epoch as the parts that the replicas of this task work on.

        Args:
            replicas: Global numbers of this task's replicas.
            total_replicas: Replicas in the whole job.
            fingerprint: Whether to compute a number from each global batch's labels (or inputs, where there
                are none), so that tasks can notice that they read different rows.

        Returns:
            A dataset of `(parts, fingerprint)`: a tuple with one `Part` for each of `replicas`, and a float64
            scalar.
        """

        def split(data: tuple[Any, ...]) -> tuple[tuple[Part, ...], tf.Tensor]:
            parts = tuple(take_part(data, total_replicas, replica) for replica in replicas)
            return parts, batch_fingerprint(data) if fingerprint else no_fingerprint()

        return self.pipeline(("parts", *replicas, total_replicas, fingerprint), split, READ_AHEAD)

    @property
    def has_labels(self) -> bool:
        """Whether a batch has more than inputs."""
        return len(self.pipeline().element_spec) > 1

    def batch_spec(self) -> tuple[Any, ...]:
        """Gives shapes and dtypes of a batch, to build the model with: a structure of things that have both.

        They come from the pipeline's types where those say enough, since reading a batch can mean filling a
        shuffle buffer; else from a first batch.
        """
        spec = self.pipeline().element_spec
        leaves = keras.tree.flatten(spec)
        if all(leaf.shape.rank is not None and None not in leaf.shape[1:] for leaf in leaves):
            return spec
        return self.first_batch()

    def first_batch(self) -> tuple[Any, ...]:
        """Gives one global batch, which training still sees."""
        self.begin_epoch(0)
        for data in self.pipeline().take(1):
            return data
        raise empty_data("data")

    def _made_once(self, key: Any, make: Callable[[], tf.data.Dataset]) -> tf.data.Dataset:
        if self._skip:  # wanted this one time only
            with tf.device("CPU:0"):
                return make()
        if key not in self._pipelines:
            with tf.device("CPU:0"):
                self._pipelines[key] = make()
        return self._pipelines[key]


def ranks_of(spec: Any) -> tuple[int | None, ...]:
    """Gives the number of dimensions of each tensor, which a traced function cannot leave open."""
    return tuple(leaf.shape.rank for leaf in keras.tree.flatten(spec))


def empty_data(what: str) -> ConfigError:
    """Gives the error for data without a row.

    Args:
        what: Which data.
    """
    return ConfigError(
        f"The {what} is empty: not one batch could be read from it.",
        "pass data with at least one row; if it comes from files, check that their pattern matches any",
    )


def batch_fingerprint(data: tuple[Any, ...]) -> tf.Tensor:
    """Hashes a batch to a number below 2**31, float64, so that sums over many steps stay exact.

    Args:
        data: The batch. Of inputs, some values of each row are taken; of labels and weights, all.
    """
    some = keras.tree.map_structure(_some_values, data[0])
    text = tf.strings.join([tf.io.serialize_tensor(leaf) for leaf in keras.tree.flatten((some, data[1:]))])
    return tf.cast(tf.strings.to_hash_bucket_fast(text, 2**31 - 1), tf.float64)


def _some_values(tensor: tf.Tensor) -> tf.Tensor:
    """Gives up to about 64 values of each row, spread over it."""
    if tensor.shape.rank is None or tensor.shape.rank < 2:
        return tensor
    rows = tf.shape(tensor)[0]
    flat = tf.reshape(tensor, [rows, tf.reduce_prod(tf.shape(tensor)[1:])])
    return flat[:, :: tf.maximum(tf.shape(flat)[1] // 64, 1)]


def no_fingerprint() -> tf.Tensor:
    """Gives the fingerprint that all batches have where nobody compares."""
    return tf.constant(0.0, tf.float64)


def as_batch(data: Any) -> tuple[Any, ...]:
    """Reads `x`, `(x,)`, `(x, y)` or `(x, y, sample_weight)` as a tuple without the parts that are None.

    Lists become tuples, since tf.data would stack their tensors into one.
    """
    data = keras.tree.lists_to_tuples(data)
    while isinstance(data, tuple) and len(data) == 1:
        data = data[0]
    if not isinstance(data, tuple):
        return (data,)
    if len(data) > 3:
        raise ConfigError(
            f"A batch must be x, (x, y) or (x, y, sample_weight); received a tuple of {len(data)} parts.",
            "wrap several inputs or outputs in a dict or a nested tuple",
        )
    given = keras.tree.lists_to_tuples(tuple(part for part in data if part is not None))
    if any(part is None for part in data[: len(given)]):
        raise ConfigError("A batch has a sample_weight but no y.", "yield (x, y, sample_weight)")
    return given


UNEQUAL_ROWS = "x, y and sample_weight of a batch have different numbers of rows"


def with_equal_rows(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """Gives a batch, whose reading fails if its tensors have different numbers of rows."""
    leaves = keras.tree.flatten(batch)
    if len(leaves) == 1:
        return batch
    known = {leaf.shape[0] for leaf in leaves if leaf.shape.rank} - {None}
    if len(known) > 1:
        raise ConfigError(
            f"{UNEQUAL_ROWS}: {' and '.join(map(str, sorted(known)))}.",
            "give every tensor of a batch one entry per row in its first dimension",
        )
    rows = [tf.shape(leaf)[0] for leaf in leaves]
    check = tf.debugging.assert_equal(rows[1:], [rows[0]] * (len(rows) - 1), UNEQUAL_ROWS)
    with tf.control_dependencies([check]):
        return keras.tree.map_structure(tf.identity, batch)


def require_plain_tensors(spec: Any) -> None:
    """Refuses ragged and sparse tensors."""
    for leaf in keras.tree.flatten(spec):
        if not isinstance(leaf, tf.TensorSpec):
            raise ConfigError(
                f"The data holds {type(leaf).__name__.removesuffix('Spec')}s, which cannot be divided over "
                f"replicas: {leaf}.",
                "convert them, for example with dataset.map(lambda x, y: (x.to_tensor(), y))",
            )


def signature_of(data: tuple[Any, ...]) -> Any:
    """Gives the types of a batch with the number of rows left open."""

    def spec(leaf: Any) -> tf.TensorSpec:
        tensor = tf.convert_to_tensor(leaf)
        return tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype)

    return keras.tree.map_structure(spec, data)
