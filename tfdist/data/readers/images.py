"""Image files in a folder for each class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from tfdist.data.readers.byte_rows import ByteRows
from tfdist.data.readers.choice import arranged
from tfdist.data.readers.each_row import each_row, processors
from tfdist.data.readers.errors import ReaderError
from tfdist.data.readers.features import mistake_in_image
from tfdist.data.readers.memory import CachedTable
from tfdist.data.table import Table
from tfdist.problems import nearest, shown

_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".png")  # what tf.io.decode_image reads
_CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}


def read_images(
    folder: str | os.PathLike[str],
    image_size: tuple[int, int] = (256, 256),
    *,
    color_mode: Literal["grayscale", "rgb", "rgba"] = "rgb",
    interpolation: str = "bilinear",
    aspect_ratio: Literal["stretch", "crop", "pad"] = "stretch",
    labels: Literal["int", "categorical", "binary", "none"] = "int",
    classes: Sequence[str] | None = None,
    cache: Literal["none", "memory"] = "none",
    parallel_reads: int | None = None,
) -> Table:
    """Lists the images of a folder, as `keras.utils.image_dataset_from_directory` does.

    Each class is a folder, at any depth of which its images are. Each task reads and decodes only the images
    of its own rows.

    Args:
        folder: The folder with the folders of the classes.
        image_size: Height and width of what the model gets.
        color_mode: One channel, three or four.
        interpolation: How to resize, as in `tf.image.resize`.
        aspect_ratio: What to do with an image of another shape: stretch it, crop it around its middle, or pad
            it with zeros.
        labels: `int` for the number of the class, int32; `categorical` for one-hot float32; `binary` for 0.0
            and 1.0; `none` for images without labels, in any folder.
        classes: The classes in the order of their numbers. Left out: all folders, sorted by name.
        cache: `memory`: read and decode all images once, and hold them.
        parallel_reads: Batches to read and decode side by side. Left out: as many as processors.

    Returns:
        Rows that `tfdist.fit` takes as `x`: float32 of shape `(rows, height, width, channels)` from 0 to 255,
        and their labels.

    Raises:
        ConfigError: There is no such folder, no class or no image in one.
    """
    place = Path(folder)
    if not place.is_dir():
        siblings = [each.name for each in place.parent.iterdir()] if place.parent.is_dir() else []
        meant = nearest(place.name, siblings)
        raise ReaderError(
            "folder",
            f"there is no folder {shown(os.fspath(folder))} in {Path.cwd()}.",
            f"did you mean {place.parent / meant}?"
            if meant
            else "check the path; it starts from the current one",
        )
    names = [] if labels == "none" else _classes(place, classes)
    if labels == "binary" and len(names) != 2:
        raise ReaderError(
            "labels",
            f"binary is for two classes; {place} has {len(names)}: {', '.join(names)}.",
            "labels: int",
        )
    files: list[Path] = []
    numbers: list[int] = []
    for number, name in enumerate(names or ["."]):
        found = sorted(each for each in (place / name).rglob("*") if each.suffix.lower() in _ENDINGS)
        if not found:
            raise ReaderError(
                "folder",
                f"{place / name} has no image; images end in {', '.join(_ENDINGS)}.",
                "remove the folder, or put images of the class there"
                if names
                else "name a folder with images in it",
            )
        files += found
        numbers += [number] * len(found)
    table = Images(
        place,
        files,
        None if labels == "none" else _labels(np.array(numbers, np.int32), labels, len(names)),
        (*image_size, _CHANNELS[color_mode]),
        interpolation,
        aspect_ratio,
    )
    table.classes = names
    table.parallel_reads = parallel_reads or processors()
    return CachedTable(table) if cache == "memory" else table


def class_names(folder: str | os.PathLike[str]) -> list[str]:
    """Gives the folders in a folder, sorted by name, but for hidden ones."""
    return sorted(each.name for each in Path(folder).iterdir() if each.is_dir() and each.name[0] != ".")


class Images(ByteRows):
    """Image files.

    Args:
        folder: The folder that the files are in, at any depth.
        files: The files.
        labels: Their labels, one entry each; None for images without.
        shape: Height, width and channels of what the model gets.
        interpolation: As in `tf.image.resize`.
        aspect_ratio: `stretch`, `crop` or `pad`.
    """

    classes: list[str]

    def __init__(
        self,
        folder: Path,
        files: Sequence[Path],
        labels: np.ndarray | None,
        shape: tuple[int, int, int],
        interpolation: str,
        aspect_ratio: str,
    ) -> None:
        super().__init__()
        self._folder, self._files = folder, files
        self._shape, self._interpolation, self._aspect_ratio = shape, interpolation, aspect_ratio
        self.rows = len(files)
        with tf.device("CPU:0"):
            self._labels = None if labels is None else tf.constant(labels)

    def fetch(self, numbers: np.ndarray) -> list[bytes]:
        """Reads files."""
        return [self._files[number].read_bytes() for number in numbers]

    def decode(self, rows: tf.Tensor, numbers: tf.Tensor) -> tuple[Any, ...]:
        """Decodes and resizes images, each by itself: they differ in size."""
        images = each_row(self._image, rows, self.parallel_reads)
        return arranged(images, None if self._labels is None else tf.gather(self._labels, numbers))

    def fault_in(self, row: bytes, number: int) -> str:
        """Says why a file cannot be decoded."""
        wrong = mistake_in_image(row, None)
        return wrong[0] if wrong else ""

    def identity(self) -> str:
        """Names the files, as far as their folder is common to all."""
        return " ".join(map(str, (file.relative_to(self._folder) for file in self._files)))

    def origin(self, number: int) -> str:
        """Names the file."""
        return str(self._files[number])

    def _image(self, encoded: tf.Tensor) -> tf.Tensor:
        height, width, channels = self._shape
        image = tf.io.decode_image(encoded, channels=channels, expand_animations=False)
        image.set_shape((None, None, channels))
        if self._aspect_ratio == "pad":
            image = tf.image.resize_with_pad(image, height, width, method=self._interpolation)
        elif self._aspect_ratio == "crop":
            image = tf.image.resize(
                _cropped(image, height, width), (height, width), method=self._interpolation
            )
        else:
            image = tf.image.resize(image, (height, width), method=self._interpolation)
        return tf.ensure_shape(tf.cast(image, tf.float32), self._shape)


def _cropped(image: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Cuts out the largest middle part with the shape wanted."""
    size = tf.shape(image)
    rows = tf.minimum(size[0], tf.cast(size[1] * height / width, tf.int32))
    columns = tf.minimum(size[1], tf.cast(size[0] * width / height, tf.int32))
    return tf.image.crop_to_bounding_box(
        image, (size[0] - rows) // 2, (size[1] - columns) // 2, rows, columns
    )


def _classes(folder: Path, given: Sequence[str] | None) -> list[str]:
    there = class_names(folder)
    if not there:
        raise ReaderError(
            "folder",
            f"{folder} has no folder in it; each class has to be one.",
            f"put the images into folders such as {folder}/cat and {folder}/dog, or write labels: none",
        )
    if given is None:
        return there
    for name in given:
        if name not in there:
            meant = nearest(name, there)
            raise ReaderError(
                "classes",
                f"{folder} has no class {shown(name)}; it has {', '.join(there[:20])}.",
                f"did you mean {meant}?" if meant else "name classes that are there",
            )
    return list(given)


def _labels(numbers: np.ndarray, form: str, count: int) -> np.ndarray:
    if form == "categorical":
        return np.eye(count, dtype=np.float32)[numbers]
    return numbers.astype(np.float32)[:, None] if form == "binary" else numbers
