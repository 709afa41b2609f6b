"""Readers of files: each gives rows that `tfdist.fit` takes as `x`, and that YAML names in `data`."""

from __future__ import annotations

from tfdist.data.readers.csv import read_csv
from tfdist.data.readers.images import read_images
from tfdist.data.readers.npz import read_npz
from tfdist.data.readers.parquet import read_parquet
from tfdist.data.readers.tfrecord import read_tfrecord

__all__ = ["read_csv", "read_images", "read_npz", "read_parquet", "read_tfrecord"]
