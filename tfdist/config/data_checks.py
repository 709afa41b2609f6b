"""What cannot work in the section `data` although each key by itself is right."""

from __future__ import annotations

from collections.abc import Iterator

from tfdist.config.data import (
    CSVSection,
    FeatureSection,
    ImagesSection,
    Names,
    NPZSection,
    ParquetSection,
    ReaderSection,
    TFRecordSection,
)
from tfdist.config.model import RunConfig
from tfdist.problems import Path, Problem, nearest

_CHANNELS = (1, 3, 4)


def data_problems(config: RunConfig) -> list[Problem]:
    """Finds what cannot work in a section with a reader."""
    section = config.data
    if not isinstance(section, ReaderSection):
        return []
    problems = [*_validation(section)]
    if isinstance(section, TFRecordSection):
        problems += [*_tfrecord(section, config.train.shuffle)]
    elif isinstance(section, CSVSection | ParquetSection):
        problems += [*_columns(section)]
    elif isinstance(section, NPZSection):
        problems += [*_npz(section)]
    elif isinstance(section, ImagesSection) and section.classes and section.labels == "none":
        what = "the classes have no effect: labels is none."
        problems.append(Problem(("data", "classes"), what, "remove classes"))
    if config.train.global_batch_size is None:
        what = "the key is missing; the rows of files have no batches of their own."
        problems.append(Problem(("train", "global_batch_size"), what, "add global_batch_size: 64"))
    return problems


def _validation(section: ReaderSection) -> Iterator[Problem]:
    if section.validation_split is None:
        return
    for name in ("validation_files", "validation_folder", "validation_inputs"):
        if getattr(section, name, None) is not None:
            what = (
                f"{section.validation_split} is given beside {name}; rows to validate on come from one"
                " of them."
            )
            yield Problem(("data", "validation_split"), what, f"remove validation_split, or remove {name}")
            return


def _tfrecord(section: TFRecordSection, shuffle: bool) -> Iterator[Problem]:
    used = set()
    for key in ("inputs", "labels", "weights"):
        for path, name in _named(key, getattr(section, key)):
            used.add(name)
            if name not in section.features:
                meant = nearest(name, section.features)
                what = f"{name!r} is not one of the features, which are {', '.join(section.features)}."
                yield Problem(path, what, f"did you mean {meant}?" if meant else f"add {name} to features")
    for name, feature in section.features.items():
        yield from _feature(("data", "features", name), feature)
        if name not in used:
            what = "the feature is neither one of inputs nor of labels nor weights, so nothing would read it."
            yield Problem(("data", "features", name), what, "remove it, or name it in one of these")
    if section.shuffle_buffer is not None and not shuffle:
        what = f"{section.shuffle_buffer} has no effect: train.shuffle is false."
        yield Problem(("data", "shuffle_buffer"), what, "remove shuffle_buffer")


def _feature(path: Path, feature: FeatureSection) -> Iterator[Problem]:
    if feature.encoding == "image":
        if len(feature.shape) != 3 or feature.shape[2] not in _CHANNELS:
            what = f"{feature.shape} is not the shape of an image: height, width, and 1, 3 or 4 channels."
            yield Problem((*path, "shape"), what, "write, say, shape: [224, 224, 3]")
        if feature.dtype in ("string", "bool"):
            what = f"{feature.dtype!r} cannot hold an image."
            yield Problem((*path, "dtype"), what, "write dtype: uint8, or dtype: float32")
        return
    if feature.dtype is None:
        what = "the key is missing; it has to be there."
        yield Problem((*path, "dtype"), what, "add dtype: float32, or whatever the model is to get")
    if feature.encoding == "raw" and feature.dtype == "string":
        what = "'string' has no numbers that encoding: raw could read."
        yield Problem((*path, "dtype"), what, "write the type of the numbers, or remove encoding")
    if feature.resize is not None:
        what = f"{feature.resize!r} has no effect on what is no image."
        yield Problem((*path, "resize"), what, "remove resize, or add encoding: image")


def _columns(section: CSVSection | ParquetSection) -> Iterator[Problem]:
    matrix = section.stack and not isinstance(section.inputs, str)
    for key, matters in (("stack", not isinstance(section.inputs, str)), ("dtype", matrix)):
        if key in section.model_fields_set and not matters:
            reason = "stack is false" if not section.stack and key == "dtype" else "inputs is a single column"
            what = f"{getattr(section, key)!r} has no effect: {reason}."
            yield Problem(("data", key), what, f"remove {key}")
    if isinstance(section, CSVSection) and section.columns:
        for key in ("inputs", "labels", "weights"):
            for path, name in _named(key, getattr(section, key)):
                if name not in section.columns:
                    meant = nearest(name, section.columns)
                    what = f"{name!r} is not one of the columns, which are {', '.join(section.columns)}."
                    yield Problem(path, what, f"did you mean {meant}?" if meant else "name one of these")


def _npz(section: NPZSection) -> Iterator[Problem]:
    if section.validation_inputs is None:
        for key in ("validation_labels", "validation_weights"):
            if getattr(section, key) is not None:
                what = f"{getattr(section, key)!r} is given without validation_inputs."
                yield Problem(("data", key), what, "add validation_inputs: x_test")
    elif section.labels is not None and section.validation_labels is None:
        what = "the key is missing beside validation_inputs; labels are given to train on."
        yield Problem(("data", "validation_labels"), what, "add validation_labels: y_test")


def _named(key: str, given: Names | None) -> Iterator[tuple[Path, str]]:
    """Gives each name of a key that takes one or a list of them, with its path."""
    if isinstance(given, str):
        yield ("data", key), given
    for number, name in enumerate(given if isinstance(given, list) else ()):
        yield ("data", key, number), name
