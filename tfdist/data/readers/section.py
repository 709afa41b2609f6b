"""Opens what the section `data` of a YAML file describes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tfdist.config import RunConfig
from tfdist.config.data import (
    CSVSection,
    ImagesSection,
    NPZSection,
    ParquetSection,
    ReaderSection,
    TFRecordSection,
)
from tfdist.data.indexed import IndexedSource
from tfdist.data.readers.csv import read_csv
from tfdist.data.readers.errors import ReaderError
from tfdist.data.readers.faults import naming_faults
from tfdist.data.readers.images import class_names, read_images
from tfdist.data.readers.npz import read_npz
from tfdist.data.readers.parquet import read_parquet
from tfdist.data.readers.stream import Stream
from tfdist.data.readers.tfrecord import read_tfrecord
from tfdist.data.source import Source
from tfdist.data.table import Table, split
from tfdist.errors import ConfigError

Rows = Table | Stream


def open_data(config: RunConfig, seed: int) -> dict[str, Source | Stream]:
    """Opens the files that a configuration names.

    Args:
        config: The configuration; its section `data` has a reader.
        seed: Seed of the order of the rows.

    Returns:
        What `Trainer.fit` takes: `train` and, if there is any, `validation`.

    Raises:
        ConfigError: The files are not what the section says.
    """
    section, batch_size = config.data, config.train.global_batch_size
    assert isinstance(section, ReaderSection)
    assert batch_size is not None
    with explaining(config, {}):
        train, validation = _open(section)
    opened: dict[str, Source | Stream] = {}
    for name, rows in (("train", train), ("validation", validation)):
        if rows is None:
            continue
        training = name == "train"
        drop = section.drop_remainder and training
        if isinstance(rows, Stream):
            opened[name] = replace(rows, drop_remainder=drop, prefetch=section.prefetch)
        else:
            opened[name] = IndexedSource(
                rows,
                batch_size,
                shuffle=config.train.shuffle and training,
                seed=seed,
                drop_remainder=drop,
                prefetch=section.prefetch,
            )
    return opened


@contextlib.contextmanager
def explaining(config: RunConfig, data: Mapping[str, Any]) -> Iterator[None]:
    """Names the key of the YAML file, or the row of a file, where reading fails inside.

    Args:
        config: The configuration.
        data: What is read inside, by name.
    """
    try:
        with naming_faults(*data.values()):
            yield
    except ReaderError as error:
        place = config.where("data", *error.argument.split(".", 1))
        raise ConfigError(f"{place}: {error.finding}", error.fix) from error


def _open(section: ReaderSection) -> tuple[Rows, Rows | None]:
    """Gives the rows to train on, and those to validate on."""
    if isinstance(section, ImagesSection):
        train, validation = _open_images(section)
    else:
        train, validation = _open_files(section)
    if section.validation_split is None:
        return train, validation
    if isinstance(train, Stream):
        raise ReaderError(
            "validation_split",
            f"{section.validation_split} cannot be divided off: compressed files and files elsewhere are"
            " read from beginning to end.",
            "write validation_files, or cache: memory",
        )
    rest, chosen = split(train, section.validation_split)
    if not chosen.rows or not rest.rows:
        raise ReaderError(
            "validation_split",
            f"{section.validation_split} of {train.rows} rows leaves {rest.rows} to train on and"
            f" {chosen.rows} to validate on.",
            "write another part, or validation_files",
        )
    return rest, chosen


def _options(section: ReaderSection) -> dict[str, Any]:
    """Gives the keys of a section that are arguments of its reader, besides the files."""
    others = {*ReaderSection.model_fields, "files", "folder"}
    given = section.model_dump(exclude_none=True)
    return {
        key: value for key, value in given.items() if key not in others and not key.startswith("validation_")
    }


def _open_files(section: ReaderSection) -> tuple[Rows, Rows | None]:
    readers: dict[type[ReaderSection], Callable[..., Rows]] = {
        TFRecordSection: read_tfrecord,
        CSVSection: read_csv,
        NPZSection: read_npz,
        ParquetSection: read_parquet,
    }
    read = readers[type(section)]
    given = section.model_dump(exclude_none=True)
    options = _options(section)
    train = read(given["files"], **options)
    files = given.get("validation_files", given["files"])
    renamed = {"files": "validation_files"} if "validation_files" in given else {}
    if "validation_inputs" in given:
        for key in ("inputs", "labels", "weights"):
            options.pop(key, None)
            if f"validation_{key}" in given:
                renamed[key] = f"validation_{key}"
                options[key] = given[f"validation_{key}"]
    if not renamed:
        return train, None
    with _blaming(renamed):
        return train, read(files, **options)


def _open_images(section: ImagesSection) -> tuple[Rows, Rows | None]:
    options = _options(section)
    del options["image_size"]
    size = (section.image_size[0], section.image_size[1])
    train = read_images(section.folder, size, **options)
    if section.validation_folder is None:
        return train, None
    with _blaming({"folder": "validation_folder"}):
        if section.labels != "none" and section.classes is None:
            options["classes"] = _same_classes(section.folder, section.validation_folder)
        return train, read_images(section.validation_folder, size, **options)


def _same_classes(folder: str, other: str) -> list[str]:
    """Gives the classes of a folder, which another one has to have as well."""
    classes = class_names(folder)
    others = class_names(other) if os.path.isdir(other) else classes
    for place, names, lacking in ((other, others, classes), (folder, classes, others)):
        missing = sorted(set(lacking) - set(names))
        if missing:
            raise ReaderError(
                "folder",
                f"{other} has to have the classes of {folder}; in {place} there is no {', '.join(missing)}.",
                "add or remove folders, or list the classes that count in classes",
            )
    return classes


@contextlib.contextmanager
def _blaming(renamed: Mapping[str, str]) -> Iterator[None]:
    """Names the keys for validation in errors."""
    try:
        yield
    except ReaderError as error:
        raise ReaderError(renamed.get(error.argument, error.argument), error.finding, error.fix) from error
