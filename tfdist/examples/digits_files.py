"""The handwritten digits as files of every format that `tfdist.data.readers` reads.

python -m tfdist.examples.digits_files FOLDER
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tfdist.errors import ConfigError
from tfdist.examples.digits import load

FORMATS = ("tfrecord", "tfrecord.gz", "csv", "npz", "parquet", "images")


def write(folder: str | os.PathLike[str], formats: Sequence[str] = FORMATS, shards: int = 2) -> None:
    """Writes the digits, those to train on and those to validate on.

    Args:
        folder: Where to; it is made if need be.
        formats: Which of `tfrecord`, `tfrecord.gz`, `csv`, `npz`, `parquet` and `images`.
        shards: Files over which the rows to train on are spread in each format; `npz` is one file.

    Example:
        >>> write("data", ["csv"])  # doctest: +SKIP
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    data = load()
    writers = {"csv": _write_csv, "parquet": _write_parquet}
    for format_ in formats:
        if format_ not in FORMATS:
            raise ConfigError(
                f"{format_!r} is no format; they are {', '.join(FORMATS)}.", f"pass formats=[{FORMATS[0]!r}]"
            )
        if format_ == "npz":
            (x_train, y_train), (x_test, y_test) = data["train"], data["validation"]
            path = folder / "digits.npz"
            np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
            continue
        for part, (images, labels) in (("train", data["train"]), ("val", data["validation"])):
            if format_ == "images":
                _write_images(folder / "images" / part, images, labels)
                continue
            count = shards if part == "train" else 1
            bounds = np.linspace(0, len(images), count + 1).astype(int)
            for shard in range(count):
                rows = slice(bounds[shard], bounds[shard + 1])
                path = folder / f"{part}-{shard}.{format_}"
                writers.get(format_, _write_records)(path, images[rows], labels[rows])


def _write_records(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    import tensorflow as tf

    compression = "GZIP" if path.suffix == ".gz" else ""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for image, label in zip(images, labels, strict=True):
            features = {
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[_bytes(image).tobytes()])),
                "pixels": tf.train.Feature(float_list=tf.train.FloatList(value=image)),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())


def _write_csv(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"pixel{number}" for number in range(images.shape[1])), "label"])
        writer.writerows(
            [*image, label] for image, label in zip(images.tolist(), labels.tolist(), strict=True)
        )


def _write_parquet(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    from tfdist.data.readers.arrow import require_pyarrow

    require_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    pixels = pa.FixedSizeListArray.from_arrays(pa.array(images.ravel()), images.shape[1])
    pq.write_table(pa.table({"pixels": pixels, "label": labels}), path)


def _write_images(folder: Path, images: np.ndarray, labels: np.ndarray) -> None:
    import tensorflow as tf

    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / str(label)
        place.mkdir(parents=True, exist_ok=True)
        encoded = tf.io.encode_png(_bytes(image).reshape(8, 8, 1))
        (place / f"{number:04}.png").write_bytes(encoded.numpy())


def _bytes(image: np.ndarray) -> np.ndarray:
    return np.round(image * 255).astype(np.uint8)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
