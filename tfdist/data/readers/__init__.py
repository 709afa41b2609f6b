"""Readers of the usual files: each gives rows that `tfdist.fit` takes as `x`, and that YAML names in `data`."""

from __future__ import annotations

from tfdist.data.readers.tfrecord import read_tfrecord

__all__ = ["read_tfrecord"]
