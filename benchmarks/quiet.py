"""How much of the machine this benchmark and others use, read from /proc (Linux)."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Load:
    """Measures who uses the processors, from when it is made.

    Example:
        >>> own_seconds, others = Load().since()
        >>> own_seconds >= 0 and 0 <= others <= 1
        True
    """

    def __init__(self) -> None:
        self._start = time.perf_counter(), _busy_seconds(), _own_seconds()

    def since(self) -> tuple[float, float]:
        """Gives the processor time of this process and its descendants, and the part of the machine that
        others used.
        """
        wall, busy, own = self._start
        elapsed, own = time.perf_counter() - wall, _own_seconds() - own
        others = (_busy_seconds() - busy - own) / (elapsed * (os.cpu_count() or 1))
        return own, min(1.0, max(0.0, others))


def wait_for_quiet(share: float, patience: float) -> None:
    """Waits until others use less than `share` of the machine, at most `patience` seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        load = Load()
        time.sleep(0.3)
        if load.since()[1] < share:
            return


def _busy_seconds() -> float:
    """Gives the time that all processors together have been busy, or taken away by the host."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_SECOND


def _own_seconds() -> float:
    """Gives the processor time of this process and all its living descendants."""
    parents, seconds = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The name, in parentheses, may hold anything.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(seconds.get(pid, 0.0) for pid in own)
