from tests.processes import nothing_left_running

__all__ = ["nothing_left_running"]
