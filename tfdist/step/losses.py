"""Losses that mean the same on any number of replicas.

A loss is a mean over something: elements, unmasked elements, or sample weights. A mean over a replica's part
cannot be averaged with the others' when the parts differ in size, so each replica computes

    value_r = sum over its part / (size of the whole * share_r)

where `share_r` is its part of the global batch's rows. Then `sum_r share_r * value_r` is the loss of the
global batch, exactly, and the same holds for gradients. Where the size is proportional to rows (no mask, mean
over elements) the value is the replica's plain mean and nothing has to be exchanged to know it.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfdist.step import keras_private
from tfdist.step.part import WorkOnPart, work_on_part


class GlobalLoss:
    """A compiled loss whose share-weighted sum over replicas is the loss of the global batch."""

    def __init__(self, loss: keras.losses.Loss) -> None:
        self._loss = loss

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Computes the loss of the part that is being worked on."""
        work = work_on_part()
        if work is None:
            return self._loss(y_true, y_pred, sample_weight)
        value = self._value(work, y_true, y_pred, sample_weight)
        work.loss_values.append(value)
        return value

    def _value(self, part: WorkOnPart, y_true: Any, y_pred: Any, sample_weight: Any) -> Any:
        reduction = self._loss.reduction
        weighted, mask = keras_private.unreduced_loss(self._loss, y_true, y_pred, sample_weight)
        total = ops.sum(weighted)
        share = ops.cast(part.share, total.dtype)
        if reduction in ("sum", "none", None):
            return ops.divide_no_nan(total, share)
        weights = sample_weight if reduction == "mean_with_sample_weight" else None
        if mask is None and weights is None:
            return ops.divide_no_nan(total, ops.cast(ops.size(weighted), total.dtype))
        size = ops.cast(ops.sum(self._weights_used(weighted, mask, weights)), "float32")
        whole = ops.cast(part.size_of_whole(tf.where(part.share > 0, size, 0.0)), total.dtype)
        return ops.divide_no_nan(ops.divide_no_nan(total, whole), share)

    def _weights_used(self, weighted: Any, mask: Any, sample_weight: Any) -> Any:
        """Gives mask times sample weight, in the shape Keras sums them in."""
        dtype = weighted.dtype
        if sample_weight is None:
            return ops.cast(mask, dtype)
        weights = ops.cast(sample_weight, dtype)
        if mask is None:
            return weights
        mask = ops.cast(mask, dtype)
        if len(weights.shape) == len(mask.shape) + 1 and weights.shape[-1] == 1:
            weights = ops.squeeze(weights, axis=-1)
        while len(weights.shape) < len(mask.shape):
            weights = ops.expand_dims(weights, axis=-1)
        return weights * mask
