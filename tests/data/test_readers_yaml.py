"""`tfdist fit` with data from files that the YAML names, in real processes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import yaml
from tfdist.strategies.registry import kinds

from tests.end_to_end.command import run
from tfdist.config import load
from tfdist.data.inputs import make_source
from tfdist.data.readers.section import open_data
from tfdist.errors import ConfigError
from tfdist.examples import digits_files

RUN: dict[str, Any] = {
    "model": {"build": "tfdist.examples.digits:build_model"},
    "train": {
        "global_batch_size": 64,
        "epochs": 2,
        "optimizer": "adam",
        "loss": "sparse_categorical_crossentropy",
        "metrics": ["accuracy"],
        "seed": 7,
    },
}
TWO_WORKERS = {"strategy": {"kind": "multi_worker_mirrored"}, "cluster": {"local": {"workers": 2}}}


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gives a folder with the digits."""
    folder = tmp_path_factory.mktemp("digits")
    digits_files.write(folder, ["tfrecord", "tfrecord.gz", "npz"])
    return folder


def fit(at: Path, data: dict[str, Any], **more: Any) -> tuple[int, str, Any]:
    """Trains with data of a section, and gives the exit code, the output and the history."""
    (at / "run.yaml").write_text(yaml.safe_dump({**RUN, "data": data, **more}))
    (at / "workdir" / "history.json").unlink(missing_ok=True)
    code, output = run("fit", at / "run.yaml", "--workdir", at / "workdir")
    history = at / "workdir" / "history.json"
    return code, output, json.loads(history.read_text()) if history.exists() else None


def tfrecord(at: Path, files: str) -> dict[str, Any]:
    return {
        "reader": "tfrecord",
        "files": f"{at}/{files}",
        "features": {"pixels": {"dtype": "float32", "shape": [64]}, "label": {"dtype": "int64"}},
        "inputs": "pixels",
        "labels": "label",
    }


def test_two_workers_read_records_as_one_process_reads_arrays(at: Path) -> None:
    arrays = {
        "reader": "npz",
        "files": f"{at}/digits.npz",
        "inputs": "x_train",
        "labels": "y_train",
        "validation_inputs": "x_test",
        "validation_labels": "y_test",
    }
    code, output, expected = fit(at, arrays)
    assert code == 0, output
    records = {**tfrecord(at, "train-*.tfrecord"), "validation_files": f"{at}/val-0.tfrecord"}
    code, output, history = fit(at, records, **TWO_WORKERS)
    assert code == 0, output
    assert history.keys() == expected.keys()
    for name, values in history.items():
        assert values == pytest.approx(expected[name], abs=1e-5), name


def test_a_damaged_record_ends_training_with_its_place(at: Path) -> None:
    content = bytearray((at / "train-0.tfrecord").read_bytes())
    content[-30] ^= 1
    (at / "damaged.tfrecord").write_bytes(content)
    code, output, _ = fit(at, tfrecord(at, "damaged.tfrecord"))
    assert code == 1
    assert f"{at}/damaged.tfrecord is damaged: the bytes of record 717, from byte " in output
    assert "\nFix: write or copy the file again" in output
    assert "Traceback" not in output


def opened(at: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Opens what a section names, without training."""
    text = yaml.safe_dump({**RUN, "data": data}, sort_keys=False)
    (at / "run.yaml").write_text(text)
    return open_data(load(at / "run.yaml", kinds=kinds(), environ={}), seed=1)


def test_options_of_reading(at: Path) -> None:
    section = {**tfrecord(at, "train-*.tfrecord"), "validation_split": 0.25, "drop_remainder": True}
    sources = opened(at, section)
    assert {name: (source.rows, source.batches) for name, source in sources.items()} == {
        "train": (1024, 16),  # of 1078 rows
        "validation": (359, 6),
    }
    inputs = [np.concatenate([batch[0] for batch in source.pipeline()]) for source in sources.values()]
    assert not {row.tobytes() for row in inputs[0]} & {row.tobytes() for row in inputs[1]}
    stream = opened(at, {**tfrecord(at, "train-*.gz"), "drop_remainder": True, "shard": "rows"})["train"]
    assert make_source(stream, batch_size=100).first_batch()[1].shape == [100]
    assert [len(batch[1]) for batch in make_source(stream, batch_size=1000).pipeline()] == [1000]


def images(at: Path, *folders: str) -> dict[str, Any]:
    """Makes folders with an image each, and a section with the first two of them."""
    for folder in folders:
        (at / folder).mkdir(parents=True, exist_ok=True)
        (at / folder / "a.png").write_bytes(tf.io.encode_png(np.zeros((2, 2, 3), np.uint8)).numpy())
    top = list(dict.fromkeys(folder.partition("/")[0] for folder in folders))
    return {"reader": "images", "folder": f"{at}/{top[0]}", "validation_folder": f"{at}/{top[1]}"}


MISTAKES: dict[str, tuple[Callable[[Path], dict[str, Any]], str, str, str]] = {
    "files": (lambda at: tfrecord(at, "trian-*.tfrecord"), "data.files", "matches no file", "mean train-"),
    "validation_files": (
        lambda at: {**tfrecord(at, "train-*.tfrecord"), "validation_files": f"{at}/vla-0.tfrecord"},
        "data.validation_files",
        "matches no file",
        "mean val-0.tfrecord?",
    ),
    "features": (
        lambda at: (
            {**tfrecord(at, "train-*.tfrecord"), "features": {"pixel": {"dtype": "int64"}}}
            | {"inputs": "pixel", "labels": None}
        ),
        "data.features.pixel",
        "no such feature",
        "mean pixels?",
    ),
    "a stream that cannot be split": (
        lambda at: {**tfrecord(at, "train-*.gz"), "validation_split": 0.1},
        "data.validation_split",
        "beginning to end",
        "cache: memory",
    ),
    "a part too small": (
        lambda at: {**tfrecord(at, "train-*.tfrecord"), "validation_split": 0.0001},
        "data.validation_split",
        "0 to validate on",
        "another part",
    ),
    "an array to validate on": (
        lambda at: (
            {"reader": "npz", "files": f"{at}/digits.npz", "inputs": "x_train"}
            | {"validation_inputs": "x_tset"}
        ),
        "data.validation_inputs",
        "no array 'x_tset'",
        "mean x_test?",
    ),
    "fewer classes to validate on": (
        lambda at: images(at, "fit/cat", "fit/dog", "fewer/cat"),
        "data.validation_folder",
        "fewer there is no dog",
        "list the classes",
    ),
    "more classes to validate on": (
        lambda at: images(at, "fit/cat", "fit/dog", "more/cat", "more/dog", "more/eel"),
        "data.validation_folder",
        "fit there is no eel",
        "add or remove folders",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_the_key_to_blame_is_named_with_its_line(case: str, at: Path) -> None:
    make, key, words, fix = MISTAKES[case]
    section = {name: value for name, value in make(at).items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        opened(at, section)
    line = re.match(rf"\S*run\.yaml:(\d+): {re.escape(key)}: ", caught.value.problem)
    assert line, caught.value.problem
    text = (at / "run.yaml").read_text().splitlines()[int(line[1]) - 1]
    assert key.rpartition(".")[2] in text
    assert words in caught.value.problem
    assert fix in caught.value.fix
