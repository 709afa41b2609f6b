"""No number of rows, batch size, number of replicas or micro-batches, and no weights of rows, make several
devices train otherwise than one.
"""

import os
import subprocess
import sys

import pytest

from tests.processes import MARK, ROOT


@pytest.mark.parametrize(
    "arguments",
    [
        ["25"],
        pytest.param(
            ["300", "every"],
            marks=pytest.mark.skipif(
                "TFDIST_LONG_SEARCH" not in os.environ, reason="takes minutes; TFDIST_LONG_SEARCH=1 runs it"
            ),
        ),
    ],
    ids=["short", "long"],
)
def test_no_example_is_unequal(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.parity.search", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **MARK},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2400,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert f"TRIED {arguments[0]} examples" in done.stdout
