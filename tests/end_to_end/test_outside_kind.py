"""A strategy kind from a package outside this repository works like one of its own."""

from pathlib import Path

import pytest

from tests.end_to_end.command import run

KIND = '''
from typing import Literal

from pydantic import Field

from tfdist.strategies.kind import StrategyKind, StrategyOptions


class Options(StrategyOptions):
    """Options of `quiet`."""

    volume: Literal["low", "lower"] = Field("low", description="How quiet.")


def create(options, cluster, startup_timeout):
    import tensorflow as tf

    print(f"made with volume {options.volume}", flush=True)
    return tf.distribute.OneDeviceStrategy("CPU:0")


KIND = StrategyKind(name="quiet", summary="One device, without a word.", options=Options, create=create)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Installs a package by hand: a module, and the entry point that pip would have written."""
    site = tmp_path / "site"
    info = site / "quiet_kind-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "quiet_kind.py").write_text(KIND)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quiet-kind\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tfdist.strategies]\nquiet = quiet_kind:KIND\n")
    return site


def config(folder: Path, strategy: str) -> Path:
    path = folder / "quiet.yaml"
    path.write_text(
        f"strategy: {strategy}\n"
        'model: {build: "tfdist.examples.digits:build_model"}\n'
        'data: {build: "tfdist.examples.digits:load"}\n'
        "train: {global_batch_size: 64, optimizer: adam, loss: sparse_categorical_crossentropy}\n"
    )
    return path


def test_trains(package: Path, tmp_path: Path) -> None:
    path = config(tmp_path, "{kind: quiet, volume: lower}")
    code, output = run("fit", path, "--workdir", tmp_path / "run", environ={"PYTHONPATH": str(package)})
    assert code == 0, output
    assert "made with volume lower" in output
    assert (tmp_path / "run" / "model.keras").exists()


def test_a_wrong_option_has_its_line(package: Path, tmp_path: Path) -> None:
    path = config(tmp_path, "{kind: quiet, volum: low}")
    code, output = run("fit", path, environ={"PYTHONPATH": str(package)})
    assert code == 2, output
    assert "quiet.yaml:1: strategy.volum" in output
    assert "Fix: did you mean volume?" in output
