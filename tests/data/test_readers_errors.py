"""Files that are not what was said of them: what is wrong, where, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist.data.dataset_fn import DataContext
from tfdist.data.inputs import make_source
from tfdist.data.readers import read_csv, read_images, read_npz, read_parquet, read_tfrecord
from tfdist.data.readers.faults import naming_faults
from tfdist.errors import ConfigError, TfdistError
from tfdist.examples import digits_files

FEATURES: dict[str, Any] = {"pixels": {"dtype": "float32", "shape": [64]}, "label": {"dtype": "int64"}}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gives a folder with files that are right, and some that are not."""
    folder = tmp_path_factory.mktemp("digits")
    digits_files.write(folder, ["tfrecord", "tfrecord.gz", "csv", "npz", "parquet"], shards=1)
    whole = (folder / "train-0.tfrecord").read_bytes()
    (folder / "cut.tfrecord").write_bytes(whole[:-7])
    (folder / "cut in the length.tfrecord").write_bytes(whole[:5])
    (folder / "empty.tfrecord").write_bytes(b"")
    second = int.from_bytes(whole[:8], "little") + 16
    damaged = bytearray(whole)
    damaged[second] ^= 1
    (folder / "length.tfrecord").write_bytes(damaged)
    (folder / "damaged.tfrecord.gz").write_bytes((folder / "train-0.tfrecord.gz").read_bytes()[:5000])
    (folder / "text.tfrecord").write_text("no records here")
    (folder / "text.parquet").write_text("no columns here")
    (folder / "text.npz").write_text("no arrays here")
    (folder / "ragged.csv").write_text("a,b\n1,2\n3\n")
    (folder / "gap.csv").write_text("a,b\n1,2\n,4\n")
    (folder / "words.csv").write_text("a,b\n1,Rome\n3,Oslo\n")
    np.savez(folder / "uneven.npz", x=np.zeros(3), y=np.zeros(4))
    for place in ("classes/cat", "classes/dog", "nothing"):
        (folder / place).mkdir(parents=True)
    (folder / "classes/cat/a.png").write_bytes(tf.io.encode_png(np.zeros((2, 2, 3), np.uint8)).numpy())
    return folder


def tfrecord(name: str, features: Any = None, **options: Any) -> Callable[[Path], Any]:
    """Gives a function that opens TFRecord files of a folder."""
    used = {**FEATURES, **(features or {})}
    names = [each for each in used if each != "label"]
    return lambda at: read_tfrecord(at / name, used, names, "label", **options)


CASES: dict[str, tuple[Callable[[Path], Any], str, str, str]] = {
    "no file": (tfrecord("trian-*.tfrecord"), "files", "matches no file in", "mean train-0.tfrecord?"),
    "no folder": (tfrecord("data/*.tfrecord"), "files", "there is no folder", "current folder"),
    "a folder": (tfrecord("classes"), "files", "is a folder, not a file", "classes/*"),
    "no pattern": (lambda at: read_csv([]), "files", "the list is empty", "files: "),
    "cut off": (tfrecord("cut.tfrecord"), "files", "record 1436 begins at byte", "cut off"),
    "cut off in a length": (tfrecord("cut in the length.tfrecord"), "files", "no TFRecord file", "Writer"),
    "a damaged length": (tfrecord("length.tfrecord"), "files", "the length of record 1, at byte", "again"),
    "no records": (tfrecord("empty.tfrecord"), "files", "no record", "write records"),
    "text": (tfrecord("text.tfrecord"), "files", "is no TFRecord file", "TFRecordWriter"),
    "compressed after all": (
        tfrecord("train-0.tfrecord.gz", compression="none"),
        "files",
        "is compressed with gzip",
        "compression: gzip",
    ),
    "not compressed after all": (
        tfrecord("train-0.tfrecord", compression="gzip"),
        "files",
        "cannot be read as a TFRecord file compressed with gzip",
        "compression",
    ),
    "both kinds": (tfrecord("train-0.tfrecord*"), "files", "some do not", "only one kind"),
    "no such feature": (
        tfrecord("train-0.tfrecord", {"pixel": {"dtype": "float32"}}),
        "features.pixel",
        "no such feature; it has image, label, pixels",
        "mean pixels?",
    ),
    "no such feature in a stream": (
        tfrecord("train-0.tfrecord.gz", {"pixel": {"dtype": "float32"}}),
        "features.pixel",
        "no such feature",
        "mean pixels?",
    ),
    "another shape": (
        tfrecord("train-0.tfrecord", {"pixels": {"dtype": "float32", "shape": [8, 9]}}),
        "features.pixels",
        "holds 64 values, and shape [8, 9] has 72",
        "shape: [64]",
    ),
    "another type": (
        tfrecord("train-0.tfrecord", {"label": {"dtype": "float32"}}),
        "features.label",
        "whole numbers",
        "dtype: int64",
    ),
    "bytes without encoding": (
        tfrecord("train-0.tfrecord", {"image": {"dtype": "uint8", "shape": [64]}}),
        "features.image",
        "it holds bytes",
        "encoding: raw",
    ),
    "another number of bytes": (
        tfrecord("train-0.tfrecord", {"image": {"dtype": "int32", "shape": [64], "encoding": "raw"}}),
        "features.image",
        "64 bytes, and shape [64] of int32 has 256",
        "shape or dtype",
    ),
    "no image": (
        tfrecord("train-0.tfrecord", {"image": {"shape": [8, 8, 1], "encoding": "image"}}),
        "features.image",
        "no image that can be decoded",
        "replace",
    ),
    "an input that is no feature": (
        lambda at: read_tfrecord(at / "train-0.tfrecord", FEATURES, "pixel", "label"),
        "inputs",
        "no feature 'pixel'; it has label, pixels",
        "mean pixels?",
    ),
    "shard without a stream": (
        tfrecord("train-0.tfrecord", shard="rows"),
        "shard",
        "'rows' has no effect",
        "remove shard",
    ),
    "no such column": (
        lambda at: read_csv(at / "train-0.csv", labels="lable"),
        "labels",
        "no column 'lable'",
        "mean label?",
    ),
    "another delimiter": (
        lambda at: read_csv(at / "train-0.csv", labels="label", delimiter=";"),
        "labels",
        "no column 'label'",
        "",
    ),
    "ragged rows": (
        lambda at: read_csv(at / "ragged.csv"),
        "files",
        "Expected 2 columns, got 1",
        "delimiter",
    ),
    "a gap": (lambda at: read_csv(at / "gap.csv", "a"), "inputs", "'a' has no value in row 1", "fill in"),
    "words": (
        lambda at: read_csv(at / "words.csv"),
        "inputs",
        "'b' holds text, such as 'Rome'",
        "stack: false",
    ),
    "fractions as whole numbers": (
        lambda at: read_csv(at / "train-0.csv", labels="label", dtype="int32"),
        "dtype",
        "int32 would cut off",
        "dtype: float32",
    ),
    "no parquet": (lambda at: read_parquet(at / "text.parquet"), "files", "as a Parquet file", "again"),
    "no column of parquet": (
        lambda at: read_parquet(at / "train-0.parquet", "pixel"),
        "inputs",
        "no column 'pixel'; it has label, pixels",
        "mean pixels?",
    ),
    "no npz": (lambda at: read_npz(at / "text.npz", "x"), "files", "as an .npz file", "again"),
    "no array": (
        lambda at: read_npz(at / "digits.npz", "x_trian"),
        "inputs",
        "no array 'x_trian'; it has x_test, x_train, y_test, y_train",
        "mean x_train?",
    ),
    "uneven arrays": (lambda at: read_npz(at / "uneven.npz", "x", "y"), "inputs", "(3,)", "together"),
    "no folder of images": (lambda at: read_images(at / "clases"), "folder", "no folder", "classes?"),
    "no classes": (lambda at: read_images(at / "nothing"), "folder", "has no folder in it", "labels: none"),
    "an empty class": (lambda at: read_images(at / "classes"), "folder", "dog has no image", "remove"),
    "no such class": (
        lambda at: read_images(at / "classes", classes=["cat", "dogs"]),
        "classes",
        "no class 'dogs'; it has cat, dog",
        "mean dog?",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_told_with_the_argument_and_the_fix(case: str, at: Path) -> None:
    make, argument, words, fix = CASES[case]
    with pytest.raises(ConfigError) as caught:
        make(at)
    assert caught.value.problem.startswith(f"{argument}: ")
    assert words in caught.value.problem
    assert fix in caught.value.fix != ""


def reading_fails(rows: Any) -> str:
    """Reads rows, which fails, and gives what is told of it."""
    with pytest.raises(TfdistError) as caught, naming_faults(rows):
        list(make_source(rows, batch_size=8).parts([0], 1, fingerprint=False))
    assert caught.value.fix
    return caught.value.problem


def write_labels(path: Path, labels: list[list[int]], compression: str = "") -> None:
    """Writes records with some labels each."""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for values in labels:
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
            example = tf.train.Example(features=tf.train.Features(feature={"label": feature}))
            writer.write(example.SerializeToString())


@pytest.mark.parametrize("ending", ["tfrecord", "tfrecord.gz"])
def test_a_record_unlike_the_first_is_named(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{ending}"
    write_labels(path, [[0]] * 20 + [[1, 2]] + [[0]] * 20, "GZIP" if ending.endswith("gz") else "")
    told = reading_fails(read_tfrecord(path, {"label": {"dtype": "int64"}}, "label"))
    assert told == f"{path}:20: label: it holds 2 values, and shape [] has 1."


def test_a_damaged_stream_is_named(at: Path) -> None:
    told = reading_fails(tfrecord("damaged.tfrecord.gz")(at))
    assert "damaged.tfrecord.gz cannot be read beyond record " in told


def test_an_image_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for number in range(20):
        encoded = tf.io.encode_png(np.zeros((2, 2, 3), np.uint8)).numpy()
        (tmp_path / "cat" / f"{number:02}.png").write_bytes(b"text" if number == 13 else encoded)
    rows = read_images(tmp_path, (2, 2))
    assert reading_fails(rows).startswith(f"{tmp_path}/cat/13.png: it is no image")
    (tmp_path / "cat" / "13.png").unlink()
    assert "cat/13.png" in reading_fails(rows)


def test_fewer_files_than_tasks(at: Path) -> None:
    context = DataContext(rank=1, world_size=2, total_replicas=2)
    with pytest.raises(ConfigError, match="1 files for 2 tasks") as caught:
        make_source(tfrecord("train-0.tfrecord.gz", shard="files")(at), context=context, replicas=[1])
    assert caught.value.fix == "write shard: rows"


def test_labels_beside_rows_of_files(at: Path) -> None:
    with pytest.raises(ConfigError, match="y was given together with rows of files"):
        make_source(read_csv(at / "train-0.csv", labels="label"), np.zeros(1437))


@pytest.mark.parametrize("read", [read_csv, read_parquet])
def test_pyarrow_is_asked_for_where_it_is_missing(
    read: Callable[..., Any], at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="pyarrow, which is not installed") as caught:
        read(at / "train-0.csv")
    assert caught.value.fix == "pip install 'tfdist[readers]'"
