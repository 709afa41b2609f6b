"""Nothing that a test starts may outlive it."""

from tests.processes import nothing_left_running

__all__ = ["nothing_left_running"]
