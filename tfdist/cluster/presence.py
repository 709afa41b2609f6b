"""Noticing that a task has ended, by its port."""

from __future__ import annotations

import contextlib
import socket
import time

from tfdist.cluster.address import split

ATTEMPTS = 3
SECONDS_BETWEEN_ATTEMPTS = 1.0


def wait_until_gone(address: str) -> None:
    """Waits until nothing listens at an address any more.

    Holds a connection open, so that the end is noticed at once and nothing is polled meanwhile. A connection
    that breaks is opened anew; only when that fails several times in a row has the other side ended.

    Args:
        address: `host:port`.
    """
    failures = 0
    while failures < ATTEMPTS:
        try:
            with socket.create_connection(split(address), timeout=10.0) as connection:
                failures = 0
                connection.settimeout(None)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                with contextlib.suppress(ConnectionError):
                    while connection.recv(4096):
                        pass
        except OSError:
            failures += 1
            time.sleep(SECONDS_BETWEEN_ATTEMPTS)
