"""Runs `tfdist` as a user does: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.processes import MARK, ROOT

SECONDS = 180.0


def start(*arguments: str | Path, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts `tfdist` with arguments, from the repository's folder."""
    variables = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    return subprocess.Popen(
        [sys.executable, "-m", "tfdist", *map(str, arguments)],
        cwd=ROOT,
        env={**variables, "CUDA_VISIBLE_DEVICES": "", **MARK, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str], seconds: float = SECONDS) -> tuple[int, str]:
    """Waits for the end of a process, or kills it; gives its exit code and all it printed."""
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"still running after {seconds:g} s; it printed:\n{output}") from None
    return process.returncode, output


def run(*arguments: str | Path, environ: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Runs `tfdist` to its end."""
    return finish(start(*arguments, environ=environ))
