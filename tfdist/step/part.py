"""The part of a batch that a replica is working on, for code that is called with no way to be told."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

_current = threading.local()  # TensorFlow runs the replicas of a task in threads of their own


@dataclass
class WorkOnPart:
    """What losses, optimizers and metrics have to know while a step runs on a part of a batch.

    Attributes:
        share: The part's share of the global batch, float32 scalar.
        size_of_whole: Gives the size of the global batch, from this part's size (both float32 scalars). Asked
            only by losses whose size is not proportional to rows, in the order of the model's outputs.
        sum_over_replicas: Sums a list of tensors over all replicas; set while a model's own step runs, which
            applies gradients by itself.
        loss_values: Filled by each loss, in the order of the model's outputs.
    """

    share: Any
    size_of_whole: Callable[[Any], Any]
    sum_over_replicas: Callable[[Any], Any] | None = None
    loss_values: list[Any] = field(default_factory=list)


@contextlib.contextmanager
def working_on(work: WorkOnPart) -> Iterator[None]:
    """Says what the calling thread works on inside the context."""
    before = work_on_part()
    _current.work = work
    try:
        yield
    finally:
        _current.work = before


def work_on_part() -> WorkOnPart | None:
    """Gives what the calling thread works on."""
    return getattr(_current, "work", None)


def weigh(tensor: Any, share: Any) -> Any:
    """Multiplies what comes from a part by its share; gives 0 where the share is 0, also of NaN and infinity.

    Rows that only stand in for none may lead to anything.

    Args:
        tensor: A tensor of floats, or the sparse gradient of an embedding.
        share: Scalar.
    """
    if isinstance(tensor, tf.IndexedSlices):
        return tf.IndexedSlices(weigh(tensor.values, share), tensor.indices, tensor.dense_shape)
    return tf.math.multiply_no_nan(tensor, tf.cast(share, tensor.dtype))
