"""What tasks print: cut into lines, marked with the task, kept in a file each."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import deque
from pathlib import Path
from typing import IO, TextIO

from absl import logging

from tfdist.cluster import Task

TAIL_LINES = 20
LONGEST_LINE = 16 * 1024  # bytes; longer ones are shown in pieces

_QUIET_SECONDS = 1.0  # an unfinished line is shown after this long without more of it …
_LONGEST_SECONDS = 10.0  # … or this long after its start: a progress bar that never pauses
# Sequences that move the cursor or clear the screen would destroy the other tasks' lines. Colours ("m") stay.
_CURSOR_MOVES = re.compile(rb"\x1b\[[0-9;?]*[A-HJKSTfhlsu]|\x08+")
_COLOURS = (36, 33, 35, 32, 34, 31)
_TYPE_ORDER = ("worker", "chief", "ps", "evaluator")


def log_name(task: Task) -> str:
    """Give the name of a task's log file, such as `log-worker-1.txt`."""
    return f"log-{str(task).replace(':', '-')}.txt"


class LineCutter:
    r"""Cuts a stream of bytes into lines of text.

    Of a line that was overwritten with `\r` (a progress bar) only the last state counts. Bytes that are not
    UTF-8 become U+FFFD.
    """

    def __init__(self) -> None:
        self._pending = b""
        self._began = 0.0
        self._grew = 0.0

    def feed(self, data: bytes, now: float) -> list[str]:
        """Take bytes that arrived at `now` (monotonic seconds) and give the lines they completed."""
        if not self._pending:
            self._began = now
        self._grew = now
        *whole, rest = (self._pending + data).split(b"\n")
        if whole:
            self._began = now
        lines = [piece for line in whole for piece in self._pieces(line)]
        if len(rest) > LONGEST_LINE:
            rest = _last_state(rest)
        while len(rest) > LONGEST_LINE:
            lines.append(_text(rest[:LONGEST_LINE]))
            rest = rest[LONGEST_LINE:]
        self._pending = rest
        return lines

    def overdue(self, now: float) -> list[str]:
        """Give the unfinished line if it has waited long enough; its rest will be a line of its own."""
        waited = now - self._grew >= _QUIET_SECONDS or now - self._began >= _LONGEST_SECONDS
        return self.finish() if waited else []

    def finish(self) -> list[str]:
        """Give the unfinished line, if there is one."""
        rest, self._pending = _last_state(self._pending), b""
        return self._pieces(rest) if rest else []

    @staticmethod
    def _pieces(line: bytes) -> list[str]:
        line = _last_state(line)
        return [_text(line[start : start + LONGEST_LINE]) for start in range(0, len(line) or 1, LONGEST_LINE)]


def _last_state(line: bytes) -> bytes:
    if b"\r" not in line:
        return line
    return next((state for state in reversed(line.split(b"\r")) if state.strip()), b"")


def _text(line: bytes) -> str:
    return _CURSOR_MOVES.sub(b"", line).decode(errors="replace")


class TaskOutput:
    """One task's output: the whole of it in a file, its last lines at hand.

    Args:
        task: Whose.
        log: File to append to, byte for byte; None keeps none.

    Attributes:
        tail: The last lines, as shown.
        silent: Whether nothing has arrived so far.
    """

    def __init__(self, task: Task, log: Path | None) -> None:
        self.task = task
        self.log = log
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.silent = True
        self._cutter = LineCutter()
        self._file: IO[bytes] | None = log.open("ab", buffering=0) if log is not None else None

    def receive(self, data: bytes, now: float) -> list[str]:
        """Keep what the task printed and give the lines that are now complete."""
        self.silent = False
        self._write(data)
        return self._remember(self._cutter.feed(data, now))

    def overdue(self, now: float) -> list[str]:
        """Give an unfinished line that has waited long enough."""
        return self._remember(self._cutter.overdue(now))

    def finish(self) -> list[str]:
        """Close the file and give the unfinished line, if there is one."""
        if self._file is not None:
            self._file.close()
            self._file = None
        return self._remember(self._cutter.finish())

    def _remember(self, lines: list[str]) -> list[str]:
        self.tail.extend(lines)
        return lines

    def _write(self, data: bytes) -> None:
        if self._file is None:
            return
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:  # a full disk must not end the training
            logging.error("%s: cannot write %s (%s); its log ends here.", self.task, self.log, error.strerror)
            self._file.close()
            self._file = None


class Console:
    """Where the lines of all tasks are shown together, each marked with its task.

    Attributes:
        closed: Whether the reader has gone away, as `head` does.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._coloured = stream.isatty() and not os.environ.get("NO_COLOR")
        self.closed = False

    def show(self, task: Task, lines: list[str]) -> None:
        """Print lines of one task."""
        if not lines or self.closed:
            return
        mark = f"[{task}]"
        if self._coloured:
            colour = _COLOURS[(_TYPE_ORDER.index(task.type) + task.index) % len(_COLOURS)]
            mark = f"\x1b[{colour}m{mark}\x1b[0m"
        text = "".join(f"{mark} {line}\n" for line in lines)
        try:
            self._stream.write(text.encode(self._encoding, errors="replace").decode(self._encoding))
            self._stream.flush()
        except (BrokenPipeError, ValueError) as error:
            if isinstance(error, ValueError) and not self._stream.closed:
                raise
            self.closed = True
            self._discard()

    def _discard(self) -> None:
        # What is still in the stream's buffer would raise again when Python closes it at exit.
        with contextlib.suppress(ValueError, io.UnsupportedOperation):  # closed, or without a descriptor
            descriptor = self._stream.fileno()
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)


class StartupWatch:
    """Says from time to time that tasks which have never printed anything are still waited for."""

    _QUIET_SECONDS = 15.0
    _FIRST_PAUSE = 30.0

    def __init__(self, now: float) -> None:
        self._start = now
        self._last_output = now
        self._next = now
        self._pause = self._FIRST_PAUSE

    def heard(self, now: float) -> None:
        """Note that some task printed something."""
        self._last_output = now

    def remark(self, silent: list[Task], now: float) -> str:
        """Give a line to show, or an empty string; `silent` are the running tasks without output so far."""
        if not silent or now < self._next or now - self._last_output < self._QUIET_SECONDS:
            return ""
        self._next = now + self._pause
        self._pause *= 2  # a quiet task that works is no news for ever
        names = ", ".join(map(str, silent))
        return f"still waiting: no output from {names} in the {now - self._start:.0f} s since the start"
