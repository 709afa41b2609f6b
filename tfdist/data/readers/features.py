"""What is in a `tf.train.Example`, and how a batch of them becomes tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.data.readers.each_row import each_row, processors
from tfdist.problems import nearest

_STORED = {"bytes_list": "bytes", "float_list": "floats", "int64_list": "whole numbers"}


@dataclass(frozen=True)
class Feature:
    """One feature of each record.

    Attributes:
        dtype: What the model gets, such as `float32`. Whole numbers are read from int64 lists, other numbers
            from float lists.
        shape: Its shape, without the rows; an image's is height, width and channels.
        encoding: For a feature that is bytes: `raw` for the numbers as they lie in memory, little-endian;
            `image` for a JPEG, PNG, GIF or BMP file.
        resize: How to bring images to `shape`, as in `tf.image.resize`. Left out: all have that size.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    encoding: str | None = None
    resize: str | None = None

    @property
    def stored_as(self) -> str:
        """Which list of a `tf.train.Feature` holds it."""
        if self.encoding is not None or self.dtype == "string":
            return "bytes_list"
        return "float_list" if self.dtype.startswith("float") else "int64_list"

    @property
    def spec(self) -> tf.io.FixedLenFeature:
        """What `tf.io.parse_example` has to read."""
        types = {"bytes_list": tf.string, "float_list": tf.float32, "int64_list": tf.int64}
        return tf.io.FixedLenFeature(() if self.encoding else self.shape, types[self.stored_as])

    def decode(self, values: tf.Tensor) -> tf.Tensor:
        """Makes a tensor of shape `(rows, *shape)` of what was read."""
        if self.encoding == "raw":
            numbers = tf.io.decode_raw(values, self.dtype)
            return tf.reshape(numbers, [tf.shape(values)[0], *self.shape])
        if self.encoding == "image":
            return each_row(self._decode_image, values, processors())
        return values if self.dtype == "string" else tf.cast(values, self.dtype)

    def _decode_image(self, encoded: tf.Tensor) -> tf.Tensor:
        image = tf.io.decode_image(encoded, channels=self.shape[2], expand_animations=False)
        if self.resize is not None:
            image = tf.image.resize(image, self.shape[:2], method=self.resize)
            if not self.dtype.startswith("float"):
                image = tf.round(image)
        return tf.ensure_shape(tf.cast(image, self.dtype), self.shape)


def parse(records: tf.Tensor, features: Mapping[str, Feature]) -> dict[str, tf.Tensor]:
    """Reads a batch of records, string of shape `(rows,)`, into tensors by name."""
    values = tf.io.parse_example(records, {name: feature.spec for name, feature in features.items()})
    return {name: feature.decode(values[name]) for name, feature in features.items()}


def mistake_in(record: bytes, features: Mapping[str, Feature]) -> tuple[str, str, str] | None:
    """Finds what in a record does not fit the features.

    Returns:
        The feature, what is wrong, and the fix; None where the record fits.
    """
    try:
        example = tf.train.Example.FromString(record)
    except Exception:  # the class depends on which implementation of protobuf is installed
        return "", "the record is no tf.train.Example.", "write tf.train.Example records"
    held = example.features.feature
    for name, feature in features.items():
        if name not in held:
            meant = nearest(name, held)
            names = ", ".join(sorted(held)) or "none"
            fix = f"did you mean {meant}?" if meant else "name a feature that is there"
            return name, f"the record has no such feature; it has {names}.", fix
        wrong = _mistake_in_feature(held[name], feature)
        if wrong:
            return name, *wrong
    return None


def _mistake_in_feature(held: Any, feature: Feature) -> tuple[str, str] | None:
    kind = held.WhichOneof("kind")
    if kind != feature.stored_as:
        asked = f"dtype {feature.dtype}" + (f" with encoding {feature.encoding}" if feature.encoding else "")
        what = (
            f"it holds {_STORED.get(kind, 'nothing')}, and {asked} is read from {_STORED[feature.stored_as]}."
        )
        fixes = {
            "bytes_list": "add encoding: raw or encoding: image, or write dtype: string",
            "float_list": "write dtype: float32",
            "int64_list": "write dtype: int64",
        }
        dropped = ", without encoding" if feature.encoding and kind != "bytes_list" else ""
        return what, fixes.get(kind, "write the records with a value for it") + dropped
    values = getattr(held, kind).value
    count = math.prod(feature.shape)
    if feature.encoding is None:
        if len(values) != count:
            return f"it holds {len(values)} values, and shape {list(feature.shape)} has {count}.", _shape_fix(
                len(values)
            )
        return None
    if len(values) != 1:
        return (
            f"it holds {len(values)} texts of bytes, not one.",
            "leave encoding out, and write dtype: string",
        )
    if feature.encoding == "raw":
        each = np.dtype(feature.dtype).itemsize
        if len(values[0]) != count * each:
            what = (
                f"it holds {len(values[0])} bytes, and shape {list(feature.shape)} of {feature.dtype} has"
                f" {count * each}."
            )
            return what, "correct shape or dtype" + (
                "; encoding: image decodes JPEG and PNG" if _is_image(values[0]) else ""
            )
        return None
    return mistake_in_image(values[0], None if feature.resize else feature.shape)


def mistake_in_image(encoded: bytes, shape: tuple[int, ...] | None) -> tuple[str, str] | None:
    """Finds what is wrong with an image.

    Args:
        encoded: The bytes of the file.
        shape: The height, width and channels it has to have; None where any will do.
    """
    try:
        image = tf.io.decode_image(encoded, channels=shape[2] if shape else 0, expand_animations=False)
    except tf.errors.OpError as error:
        return f"it is no image that can be decoded: {str(error).splitlines()[0]}", "replace or remove it"
    if shape is not None and tuple(image.shape) != shape:
        return (
            f"the image has the shape {list(image.shape)} instead of {list(shape)}.",
            f"write shape: {list(image.shape)}, or add resize: bilinear",
        )
    return None


def _is_image(content: bytes) -> bool:
    return content.startswith((b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BM"))


def _shape_fix(count: int) -> str:
    return "write shape: []" if count == 1 else f"correct shape, for example shape: [{count}]"
