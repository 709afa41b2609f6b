"""Files of every format give the rows that were written into them: each once, in the order asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.data.dataset_fn import DataContext
from tfdist.data.inputs import make_source
from tfdist.data.readers import read_csv, read_images, read_npz, read_parquet, read_tfrecord
from tfdist.data.readers.stream import Stream
from tfdist.data.source import Source
from tfdist.data.table import split
from tfdist.examples import digits, digits_files

FEATURES = {"pixels": {"dtype": "float32", "shape": [64]}, "label": {"dtype": "int32"}}
READERS: dict[str, Callable[[Path], Any]] = {
    "tfrecord": lambda at: read_tfrecord(at / "train-*.tfrecord", FEATURES, "pixels", "label"),
    "tfrecord in memory": lambda at: read_tfrecord(
        at / "train-*.tfrecord", FEATURES, "pixels", "label", cache="memory"
    ),
    "compressed in memory": lambda at: read_tfrecord(
        at / "train-*.tfrecord.gz", FEATURES, "pixels", "label", cache="memory"
    ),
    "csv": lambda at: read_csv(at / "train-*.csv", labels="label"),
    "npz": lambda at: read_npz(at / "digits.npz", "x_train", "y_train"),
    "parquet": lambda at: read_parquet(
        [at / "train-0.parquet", at / "train-[12].parquet"], "pixels", "label"
    ),
    "images": lambda at: read_images(at / "images" / "train", (8, 8), color_mode="grayscale"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gives a folder with the digits in every format."""
    folder = tmp_path_factory.mktemp("digits")
    digits_files.write(folder, shards=3)
    return folder


def written(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Gives the rows that a reader should give, in order."""
    images, labels = digits.load()["train"]
    if name == "images":  # one class after the other
        order = np.argsort(labels, kind="stable")
        return images[order], labels[order]
    return images, labels


def read(source: Source, epoch: int = 0) -> list[tuple[Any, ...]]:
    """Reads the batches of an epoch."""
    source.begin_epoch(epoch)
    return [keras.tree.map_structure(np.asarray, batch) for batch in source.pipeline()]


def numbers(source: Source, name: str, epoch: int = 0) -> list[int]:
    """Gives the numbers of the rows of an epoch, which it knows by what is in them."""
    known = {key(row): number for number, row in enumerate(written(name)[0])}
    assert len(known) == 1437
    return [known[key(row)] for batch in read(source, epoch) for row in batch[0]]


def key(row: np.ndarray) -> bytes:
    """Gives what tells a digit from others, as an image has it: sixteenths as bytes."""
    scaled = row.ravel() * 255 if row.max() <= 1 else row.ravel()
    return np.round(scaled).astype(np.uint8).tobytes()


@pytest.mark.parametrize("name", READERS)
def test_rows_come_as_they_were_written(name: str, files: Path) -> None:
    images, labels = written(name)
    table = READERS[name](files)
    source = make_source(table, batch_size=100)
    batches = read(source)
    assert (source.rows, source.batches) == (1437, 15)
    assert [len(batch[1]) for batch in batches] == [100] * 14 + [37]
    assert np.concatenate([batch[1] for batch in batches]).tolist() == labels.tolist()
    assert numbers(source, name) == list(range(1437))
    if name != "images":
        np.testing.assert_array_equal(np.concatenate([batch[0] for batch in batches]), images)
    assert None not in source.batch_spec()[0].shape[1:], "the model is built from the shapes"
    path, _, row = table.origin(1436).rpartition(":")
    assert Path(path).exists() or name == "images"
    assert row in ("478", "1436") or name == "images"


@pytest.mark.parametrize("name", READERS)
def test_each_epoch_is_a_new_order_of_all_rows(name: str, files: Path) -> None:
    source = make_source(READERS[name](files), batch_size=256, shuffle=True, seed=3)
    first, second = numbers(source, name, 0), numbers(source, name, 1)
    assert sorted(first) == sorted(second) == list(range(1437))
    assert first != second
    again = make_source(READERS[name](files), batch_size=100, shuffle=True, seed=3)
    assert numbers(again, name, 1) == second, "the order is that of the seed and the epoch alone"


@pytest.mark.parametrize(("name", "replicas"), [("tfrecord", 1), ("tfrecord", 2), ("images", 3), ("csv", 2)])
def test_the_parts_of_replicas_make_up_the_batches(name: str, replicas: int, files: Path) -> None:
    def source() -> Source:
        return make_source(READERS[name](files), batch_size=256, shuffle=True, seed=3)

    read_by = []
    for replica in range(replicas):
        steps = source().parts([replica], replicas, fingerprint=False)
        read_by.append([np.asarray(parts[0].data[1])[: int(parts[0].rows)] for parts, _ in steps])
    whole = [batch[1].tolist() for batch in read(source())]
    assert [np.concatenate(step).tolist() for step in zip(*read_by, strict=True)] == whole


@pytest.mark.parametrize("name", READERS)
def test_a_split_has_each_row_on_one_side(name: str, files: Path) -> None:
    rest, tenth = (make_source(table, batch_size=64) for table in split(READERS[name](files), 0.1))
    assert tenth.rows == 143
    assert sorted(numbers(rest, name) + numbers(tenth, name)) == list(range(1437))


def test_reading_can_begin_in_the_middle(files: Path) -> None:
    source = make_source(READERS["tfrecord"](files), batch_size=100, shuffle=True, seed=3)
    whole = read(source, 2)
    source.begin_epoch(2, skip=9)
    rest = [np.asarray(batch[1]).tolist() for batch in source.pipeline(("rest",))]
    assert rest == [batch[1].tolist() for batch in whole[9:]]


def test_a_task_reads_only_the_rows_of_its_replicas(files: Path, tmp_path: Path) -> None:
    content = bytearray((files / "train-0.tfrecord").read_bytes())
    content[-30] ^= 1  # in the last of 479 records, which is the second replica's
    (tmp_path / "damaged.tfrecord").write_bytes(content)
    table = read_tfrecord(tmp_path / "damaged.tfrecord", FEATURES, "pixels", "label")
    source = make_source(table, batch_size=479)
    assert sum(float(parts[0].rows) for parts, _ in source.parts([0], 2, fingerprint=True)) == 239
    with pytest.raises(tf.errors.OpError, match="checksum"):
        list(source.parts([1], 2, fingerprint=True))


def stream(files: Path, **options: Any) -> Stream:
    opened = read_tfrecord(files / "train-*.tfrecord.gz", FEATURES, "pixels", "label", **options)
    assert isinstance(opened, Stream)
    return opened


@pytest.mark.parametrize("shuffle", [False, True])
def test_tasks_with_files_of_their_own_read_each_row_once(shuffle: bool, files: Path) -> None:
    def epochs(rank: int) -> list[list[int]]:
        context = DataContext(rank=rank, world_size=2, total_replicas=2)
        source = make_source(
            stream(files), batch_size=64, shuffle=shuffle, seed=5, context=context, replicas=[rank]
        )
        assert source.per_task
        return [numbers(source, "tfrecord", epoch) for epoch in (0, 1)]

    tasks = [epochs(0), epochs(1)]
    for epoch in (0, 1):
        assert sorted(tasks[0][epoch] + tasks[1][epoch]) == list(range(1437))
    assert (tasks[0][0] != tasks[0][1]) == shuffle
    assert epochs(1) == tasks[1], "the order is that of the seed and the epoch alone"
    if not shuffle:
        assert tasks[1][0] == list(range(479, 958))


@pytest.mark.parametrize(("shard", "tasks"), [("rows", 2), ("auto", 4)])
def test_tasks_that_share_files_read_the_same_batches(shard: str, tasks: int, files: Path) -> None:
    def batches(rank: int) -> list[int]:
        context = DataContext(rank=rank, world_size=tasks, total_replicas=tasks)
        source = make_source(
            stream(files, shard=shard, shuffle_buffer=200),
            batch_size=64,
            shuffle=True,
            seed=5,
            context=context,
            replicas=[rank],
        )
        assert not source.per_task
        return numbers(source, "tfrecord")

    assert batches(0) == batches(1)
    assert sorted(batches(0)) == list(range(1437))
    assert batches(0) != list(range(1437))


def test_a_stream_without_the_last_batch(files: Path) -> None:
    source = make_source(replace(stream(files), drop_remainder=True), batch_size=100)
    assert [len(batch[1]) for batch in read(source)] == [100] * 14


def test_encodings_and_types_of_features(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (5, 6, 4, 3), np.uint8)
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for number, image in enumerate(images):
            larger = np.repeat(np.repeat(image, 2, axis=0), 2, axis=1)
            values = {
                "raw": [image.tobytes()],
                "doubles": [(image[0] / 2.0).tobytes()],
                "png": [tf.io.encode_png(image).numpy()],
                "larger": [tf.io.encode_png(larger).numpy()],
                "text": [f"row {number}".encode()],
            }
            features = {
                name: tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
                for name, value in values.items()
            }
            floats = tf.train.FloatList(value=image.ravel()[:6])
            features["floats"] = tf.train.Feature(float_list=floats)
            features["weight"] = tf.train.Feature(float_list=tf.train.FloatList(value=[number / 2]))
            features["unread"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2]))
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    table = read_tfrecord(
        tmp_path / "a.tfrecord",
        {
            "raw": {"dtype": "uint8", "shape": [6, 4, 3], "encoding": "raw"},
            "doubles": {"dtype": "float64", "shape": [4, 3], "encoding": "raw"},
            "png": {"shape": [6, 4, 3], "encoding": "image"},
            "larger": {"dtype": "float32", "shape": [6, 4, 3], "encoding": "image", "resize": "nearest"},
            "text": {"dtype": "string"},
            "floats": {"dtype": "float32", "shape": [2, 3]},
            "weight": {"dtype": "float32"},
        },
        inputs=["raw", "doubles", "png", "larger", "text"],
        labels=["floats"],
        weights="weight",
    )
    ((x, y, weights),) = read(make_source(table, batch_size=5))
    for name in ("raw", "png", "larger"):
        np.testing.assert_array_equal(x[name], images)
    assert (x["raw"].dtype, x["png"].dtype, x["larger"].dtype) == (np.uint8, np.uint8, np.float32)
    np.testing.assert_array_equal(x["doubles"], images[:, 0] / 2)
    assert x["text"].tolist() == [f"row {number}".encode() for number in range(5)]
    np.testing.assert_array_equal(y["floats"], images.reshape(5, -1)[:, :6].reshape(5, 2, 3))
    assert weights.tolist() == [0, 0.5, 1, 1.5, 2]


TABLE = "a;b;city;y;w\n1;2.5;Rome;0;1\n3;4.5;Oslo;1;0.5\n"


def test_columns_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TABLE)
    ((x, y, weights),) = read(make_source(read_csv(path, ["b", "a"], "y", "w", delimiter=";"), batch_size=4))
    assert x.dtype == np.float32
    assert (x.tolist(), y.tolist(), weights.tolist()) == ([[2.5, 1], [4.5, 3]], [0, 1], [1, 0.5])
    ((x, y),) = read(
        make_source(read_csv(path, ["a", "city"], ["y"], stack=False, delimiter=";"), batch_size=4)
    )
    assert x["city"].tolist() == [b"Rome", b"Oslo"]
    assert (x["a"].tolist(), y["y"].tolist()) == ([1, 3], [0, 1])
    path.write_text(TABLE.partition("\n")[2])
    for columns, names in ((None, ("f0", "f3")), (["a", "b", "c", "y", "w"], ("a", "y"))):
        table = read_csv(path, *names, delimiter=";", header=False, columns=columns)
        ((x, y),) = read(make_source(table, batch_size=4))
        assert (x.tolist(), y.tolist()) == ([1, 3], [0, 1])


def test_columns_of_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    matrices = np.arange(24.0).reshape(4, 3, 2)
    columns = {
        "matrix": pa.array(matrices.tolist()),  # lists of lists, of no fixed size
        "age": pa.array([1, 2, 3, 4], pa.int8()),
        "flag": pa.array([True, False, True, False]),
        "kind": pa.array(["a", "b", "a", "b"]).dictionary_encode(),
        "unread": pa.array([None] * 4),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=3)
    ((x, y),) = read(make_source(read_parquet(tmp_path / "a.parquet", "matrix", "kind"), batch_size=4))
    np.testing.assert_array_equal(x, matrices)
    assert y.tolist() == [b"a", b"b", b"a", b"b"]
    ((x,),) = read(make_source(read_parquet(tmp_path / "a.parquet", ["age", "matrix", "flag"]), batch_size=4))
    assert x.tolist() == [[row + 1, *matrices[row].ravel(), 1 - row % 2] for row in range(4)], (
        "side by side in the order named"
    )


def test_images_are_those_of_keras(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for number in range(6):
        place = tmp_path / ("cat", "dog", "eel")[number % 3] / ("deep" if number % 2 else ".")
        place.mkdir(parents=True, exist_ok=True)
        image = draw.integers(0, 256, (9 + number, 14 - number, 3), np.uint8)
        encode = tf.io.encode_png if number % 2 else tf.io.encode_jpeg
        (place / f"{number}.{'png' if number % 2 else 'JPG'}").write_bytes(encode(image).numpy())
    shapes: dict[str, dict[str, bool]] = {
        "stretch": {},
        "crop": {"crop_to_aspect_ratio": True},
        "pad": {"pad_to_aspect_ratio": True},
    }
    for aspect_ratio, keras_arguments in shapes.items():
        for labels in ("int", "categorical") if aspect_ratio == "stretch" else ("int",):
            theirs = keras.utils.image_dataset_from_directory(
                tmp_path,
                labels="inferred",
                label_mode=labels,
                image_size=(6, 5),
                shuffle=False,
                **keras_arguments,
            )
            ((keras_images, keras_labels),) = theirs.as_numpy_iterator()
            table = read_images(tmp_path, (6, 5), aspect_ratio=aspect_ratio, labels=labels)
            ((images, own_labels),) = read(make_source(table, batch_size=6))
            np.testing.assert_allclose(images, keras_images, atol=1e-4)
            np.testing.assert_array_equal(own_labels, keras_labels)
            assert own_labels.dtype == keras_labels.dtype
    ((images,),) = read(make_source(read_images(tmp_path, (6, 5), labels="none"), batch_size=6))
    assert images.shape == (6, 6, 5, 3)
    ((_, own_labels),) = read(
        make_source(read_images(tmp_path, (6, 5), labels="binary", classes=["eel", "cat"]), batch_size=6)
    )
    assert own_labels.tolist() == [[0], [0], [1], [1]]


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a", "c/d"):
        path = tmp_path / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"x\n{ord(name[-1])}\n")
    table = read_csv([tmp_path / "**" / "*.csv", tmp_path / "a.csv"], "x")
    ((x,),) = read(make_source(table, batch_size=9))
    assert "".join(map(chr, x.astype(int))) == "abd"
    assert math.prod(x.shape) == 3
