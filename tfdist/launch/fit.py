"""`tfdist fit`: trains in this process, or starts the local tasks of the cluster and looks after them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import logging

from tfdist.config import load
from tfdist.errors import EXIT_DONE
from tfdist.launch.local import run_local
from tfdist.launch.tensorflow_import import import_tensorflow
from tfdist.launch.workdir import HELD_BY_LAUNCHER, default_workdir, held
from tfdist.strategies.registry import kinds
from tfdist.strategies.tensorflow_startup import end_without_waiting


def fit(config_path: str, overrides: Sequence[str] = (), workdir: Path | None = None) -> int:
    """Trains what a YAML file describes.

    Args:
        config_path: The YAML file.
        overrides: Values that replace those of the file, each as `train.epochs=20`.
        workdir: Where files go; `runs/NAME` for `NAME.yaml` when left out.

    Returns:
        The exit code.

    Raises:
        TfdistError: With what is wrong and how to mend it.
    """
    config = load(config_path, overrides, kinds=kinds())
    cluster = config.resolve_cluster()
    workdir = default_workdir(config_path) if workdir is None else workdir
    if cluster is not None and cluster.task is None:
        with held(workdir):
            settings = [word for override in overrides for word in ("--set", override)]
            command = [
                sys.executable,
                "-m",
                "tfdist",
                "fit",
                config_path,
                *settings,
                "--workdir",
                str(workdir),
            ]
            environ = {**os.environ, HELD_BY_LAUNCHER: str(workdir.resolve())}
            return run_local(command, cluster, log_directory=workdir, environ=environ)
    if cluster is not None and cluster.task is not None and cluster.task.type == "evaluator":
        logging.info("%s has nothing to do: validation runs in the training tasks.", cluster.task)
        return EXIT_DONE

    try:
        with held(workdir) if cluster is None or cluster.is_chief else contextlib.nullcontext():
            import_tensorflow()
            from tfdist.training.run import run_task

            run_task(config, cluster, workdir)
    except BaseException:
        end_without_waiting()
        raise
    return EXIT_DONE
