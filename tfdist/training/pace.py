"""How many steps to run in one call.

Each call costs a fixed time outside the graph, so many steps per call are fast; but between calls is when
progress is shown, callbacks act and Ctrl-C is heard. The pace aims at calls of a quarter of a second.
"""

from __future__ import annotations

from dataclasses import dataclass

SECONDS_PER_CALL = 0.25
GROWTH = 4


@dataclass
class Pace:
    """Chooses the steps of each call. All tasks choose alike, since they are told the same seconds.

    Attributes:
        fixed: Steps per call as the user set them; None to choose.
        most: Most steps to choose.

    Example:
        >>> pace = Pace(most=100)
        >>> [pace.next(1000, seconds_per_step) for seconds_per_step in (None, 0.001, 0.001, 0.001, 0.125)]
        [1, 4, 16, 64, 2]
    """

    fixed: int | None = None
    most: int = 256
    _last: int = 0

    def next(self, remaining: int | None, seconds_per_step: float | None) -> int:
        """Gives the steps of the next call.

        Args:
            remaining: Steps left in the epoch; None if not known.
            seconds_per_step: What a step took lately; None if not known.
        """
        if self.fixed is not None:
            steps = self.fixed
        elif seconds_per_step is None:
            steps = 1
        else:
            # Grown gradually, because the first times include tracing and say little.
            wanted = int(SECONDS_PER_CALL / max(seconds_per_step, 1e-6))
            steps = max(1, min(wanted, GROWTH * max(self._last, 1), self.most))
        self._last = steps
        return steps if remaining is None else min(steps, remaining)
