"""Tasks that never come: a named error and exit code 3, instead of waiting for ever."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.end_to_end.command import finish, start
from tfdist.cluster import Cluster, Task

MULTI_WORKER = {"kind": "multi_worker_mirrored", "cluster": {"workers": 2}}
PARAMETER_SERVER = {"kind": "parameter_server", "cluster": {"workers": 1, "ps": 1}}

# What kind of cluster; which tasks start; which are missing.
MISSING = {
    "second worker": (MULTI_WORKER, ["worker:0"], ["worker:1"]),
    "first worker": (MULTI_WORKER, ["worker:1"], ["worker:0"]),
    "worker of a chief": (PARAMETER_SERVER, ["chief:0", "ps:0"], ["worker:0"]),
    "ps of a chief": (PARAMETER_SERVER, ["chief:0"], ["ps:0", "worker:0"]),
    "chief": (PARAMETER_SERVER, ["worker:0"], ["chief:0"]),
}


def parse(name: str) -> Task:
    type_, _, index = name.partition(":")
    return Task(type_, int(index))


def config_file(folder: Path, kind: str, timeout: float) -> Path:
    path = folder / "run.yaml"
    path.write_text(
        f'strategy: {{kind: {kind}}}\nmodel: {{build: "tfdist.examples.digits:build_model"}}\ndata: {{build:'
        ' "tfdist.examples.digits:load"}\ntrain: {global_batch_size: 64, optimizer: adam, loss:'
        f" sparse_categorical_crossentropy, epochs: 500}}\nlaunch: {{startup_timeout: {timeout}}}\n"
    )
    return path


@pytest.mark.parametrize("case", MISSING)
def test_names_the_missing_task(case: str, tmp_path: Path) -> None:
    shape, starting, missing = MISSING[case]
    cluster = Cluster.local(**shape["cluster"])
    config = config_file(tmp_path, shape["kind"], timeout=6)
    processes = {
        name: start(
            "fit", config, "--workdir", tmp_path, environ={"TF_CONFIG": cluster.tf_config(parse(name))}
        )
        for name in starting
    }
    for name, process in processes.items():
        code, output = finish(process)
        assert code == 3, output
        if name == starting[0]:
            for other in missing:
                assert f"{other} at {cluster.address(parse(other))}" in output
            assert "6 s" in output
            assert "Fix: " in output
            assert "Traceback" not in output


def test_names_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        cluster = Cluster({"worker": [address, "127.0.0.1:1"]}, Task("worker", 0))
        config = config_file(tmp_path, "multi_worker_mirrored", timeout=6)
        code, output = finish(
            start("fit", config, "--workdir", tmp_path, environ={"TF_CONFIG": cluster.tf_config()})
        )
    assert code == 3, output
    assert f"worker:0 cannot listen on its address {address}" in output
    assert "Fix: " in output


def test_names_a_host_that_is_not_known(tmp_path: Path) -> None:
    cluster = Cluster({"worker": ["no-such-host.invalid:2222", "nor-this.invalid:2222"]}, Task("worker", 0))
    config = config_file(tmp_path, "multi_worker_mirrored", timeout=6)
    code, output = finish(
        start("fit", config, "--workdir", tmp_path, environ={"TF_CONFIG": cluster.tf_config()})
    )
    assert code == 3, output
    assert "cannot look up the host name of its own address no-such-host.invalid:2222" in output
