"""Signals that ask this process to end, noted instead of obeyed, so that its tasks can be ended first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def noted_signals(on_repeat: Callable[[], None]) -> Iterator[list[signal.Signals]]:
    """Note SIGINT, SIGTERM and SIGHUP in the list this gives, for the length of a `with` block.

    A signal that was ignored before stays ignored (`nohup`, a shell's `&`). Outside the main thread Python
    lets nobody catch signals: then nothing is noted.

    Args:
        on_repeat: Called at once, inside the handler, for every signal after the first.
    """
    noted: list[signal.Signals] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(signal.Signals(number))
        if len(noted) > 1:
            on_repeat()

    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                # None: installed by C code, which could not be put back.
                if handler is not signal.SIG_IGN and handler is not None:
                    before[number] = handler
                    signal.signal(number, note)
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
