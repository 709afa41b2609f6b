"""Imports TensorFlow for the command line, without the lines it prints on every start whatever one does."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from absl import logging as absl_logging

NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
# Printed while importing: remarks of level I and W (`I0000 00:00:… port.cc:153] …`), and one about logging
# itself.
_REMARK = re.compile(rb"^([IW]\d{4} |WARNING: All log messages before absl::InitializeLog)")


def import_tensorflow() -> None:
    """Imports TensorFlow. What it prints on standard error meanwhile is shown, except its usual remarks.

    Where there is no NVIDIA driver, its error about that is left out as well; a variable TF_CPP_MIN_LOG_LEVEL
    in the environment is respected.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1" if NVIDIA_DRIVER.exists() else "3")
    absl_logging.info("Loading TensorFlow.")  # a sign of life: it takes seconds
    with _without_remarks():
        importlib.import_module("tensorflow")
    # It reports at level INFO how it splits up each sum, which says nothing to a user.
    logging.getLogger("tensorflow").setLevel(logging.WARNING)


@contextlib.contextmanager
def _without_remarks() -> Iterator[None]:
    """Holds back what is written to standard error, by native code too, and passes the rest on afterwards."""
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            for line in held:
                if not _REMARK.match(line):
                    os.write(2, line)
