"""The folder of a run: made, checked and held, so that two runs never write into one."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from tfdist.errors import ConfigError

HELD_BY_LAUNCHER = "TFDIST_WORKDIR_HELD"
_LOCK_NAME = ".in-use"


def default_workdir(config_path: str) -> Path:
    """Gives the folder of a run that names none: `runs/NAME` for `NAME.yaml`."""
    return Path("runs") / Path(config_path).stem


@contextlib.contextmanager
def held(workdir: Path, environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Makes the folder and keeps other runs out of it for as long as the context is open.

    Tasks started inside the context inherit, by an environment variable, that their launcher holds it.

    Raises:
        ConfigError: If it cannot be written to, or another run is using it.
    """
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        lock = (workdir / _LOCK_NAME).open("a+")
    except OSError as error:
        raise ConfigError(
            f"Workdir {workdir} cannot be written to: {error.strerror}.", "choose another with --workdir DIR"
        ) from error
    if environ.get(HELD_BY_LAUNCHER) == str(workdir.resolve()):
        lock.close()
        yield
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ConfigError(
                f"Workdir {workdir} is in use by process {lock.read().strip() or 'of another run'}.",
                "wait until that run ends, or choose another folder with --workdir DIR",
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
