"""One running task: a command and everything it started, ended together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfdist.launch.leash import live_groups, signal_session

_LEASH = Path(__file__).with_name("leash.py")


class TaskProcess:
    """A command in a session of its own, on a leash: it cannot outlive this Python process.

    Its standard output and error arrive together, in order, at `output`, a non-blocking file descriptor. When
    the command ends, what it left running is asked to end too (SIGTERM, then SIGKILL). Call `tend` a few
    times a second.

    Args:
        command: Program and arguments; the program is looked up in the `PATH` of `environ`.
        environ: The whole environment.
        stop_grace: Seconds between SIGTERM and SIGKILL.

    Attributes:
        pid: Process id of the leash, which is also the id of the session and of its first process group.
        output: File descriptor to read from, until `close`.
        code: How the command ended: its exit code, minus the number of the signal that ended it, or None.
        gone: Whether the command and everything in its session has ended.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], stop_grace: float = 10.0) -> None:
        self._stop_grace = stop_grace
        self._kill_at: float | None = None
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LEASH), *command],
            env=environ,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._popen.stdout is not None  # for the type checker
        self.pid = self._popen.pid
        self.output = self._popen.stdout.fileno()
        self.code: int | None = None
        self.gone = False
        os.set_blocking(self.output, False)

    def send(self, number: int) -> None:
        """Send a signal to every process of the task."""
        if not self.gone:
            signal_session(self.pid, number)

    def stop(self) -> None:
        """Ask every process of the task to end; `tend` kills what is left when the grace is over."""
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._stop_grace
            self.send(signal.SIGTERM)
            self.send(signal.SIGCONT)  # a stopped process would not see SIGTERM

    def kill(self) -> None:
        """End every process of the task now."""
        self._kill_at = 0.0
        self.send(signal.SIGKILL)

    def tend(self) -> None:
        """Notice the command's end, and kill what outlived its grace."""
        if self.gone:
            return
        if self.code is None:
            self.code = self._popen.poll()
        if self.code is not None:
            # The session's id is free for others only once nobody is left in it, so this asks about our own.
            self.gone = not live_groups(self.pid)
            if not self.gone:
                self.stop()
        if self._kill_at is not None and time.monotonic() >= self._kill_at:
            self.send(signal.SIGKILL)

    def close(self) -> None:
        """Kill what still runs, without waiting for it, and give the pipes back."""
        self.tend()
        self.kill()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                pipe.close()
