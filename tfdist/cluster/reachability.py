"""Whether the other tasks answer on their ports."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping

from absl import logging

from tfdist.cluster.address import split
from tfdist.cluster.task import Task
from tfdist.errors import ClusterError

_PAUSE = 0.1  # seconds between two tries
_SILENCE = 5.0  # seconds without a word before saying who is being waited for


def wait_for(addresses: Mapping[Task, str], timeout: float) -> None:
    """Waits until every task accepts a TCP connection.

    Args:
        addresses: The `host:port` of each task to wait for.
        timeout: Seconds to wait for all of them together.

    Raises:
        ClusterError: Some did not answer in time; it names each, its address and the reason.
    """
    missing = probe(addresses, timeout)
    if not missing:
        return
    lines = "".join(f"\n  {task} at {addresses[task]}: {reason}" for task, reason in missing.items())
    count = "1 task" if len(missing) == 1 else f"{len(missing)} tasks"
    raise ClusterError(
        f"{count} of {len(addresses)} did not answer within {timeout:g} s:{lines}",
        f"start {', '.join(map(str, missing))}, or correct the address; a firewall can also be in between",
    )


def require_known_name(task: Task, address: str) -> None:
    """Checks that a task's own host name can be looked up, since the others will look for it under this name.

    Raises:
        ClusterError: It cannot.
    """
    host, _ = split(address)
    try:
        socket.getaddrinfo(host, None)
    except socket.gaierror as error:
        raise ClusterError(
            f"{task} cannot look up the host name of its own address {address} ({error.strerror}).",
            "correct the name in the cluster, write an IP address, or add the name to /etc/hosts",
        ) from error


def probe(addresses: Mapping[Task, str], timeout: float) -> dict[Task, str]:
    """Tries to connect to every task until it answers or the time is over.

    Args:
        addresses: The `host:port` of each task.
        timeout: Seconds to try, for all of them together.

    Returns:
        Why each task that did not answer did not, such as `connection refused`; empty if all did.
    """
    deadline = time.monotonic() + timeout
    reasons = dict.fromkeys(addresses, "no answer")
    lock = threading.Lock()

    def try_until_answered(task: Task) -> None:
        while True:
            reason = _connect(addresses[task], deadline)
            with lock:
                if reason is None:
                    del reasons[task]
                    return
                reasons[task] = reason
            if time.monotonic() + _PAUSE >= deadline:
                return
            time.sleep(_PAUSE)

    # Daemon threads, because looking up a name can take longer than the time there is.
    threads = [threading.Thread(target=try_until_answered, args=(task,), daemon=True) for task in addresses]
    for thread in threads:
        thread.start()
    _join(threads, min(deadline, time.monotonic() + _SILENCE))
    with lock:
        late = dict(reasons)
    if late and time.monotonic() < deadline:
        waiting = ", ".join(f"{task} at {addresses[task]} ({reason})" for task, reason in late.items())
        logging.info("Waiting up to %g s for %s", timeout, waiting)
    _join(threads, deadline)
    with lock:
        return dict(reasons)


def _connect(address: str, deadline: float) -> str | None:
    """Tries once; gives the reason why it failed, or None."""
    try:
        with socket.create_connection(split(address), timeout=max(deadline - time.monotonic(), _PAUSE)):
            return None
    except socket.gaierror as error:
        return f"the host name is not known ({error.strerror})"
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _join(threads: list[threading.Thread], deadline: float) -> None:
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
