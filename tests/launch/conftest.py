"""Around every test here: no process is left."""

from tests.processes import nothing_left_running

__all__ = ["nothing_left_running"]
