"""Addresses as `host:port`: what makes one valid, and whether it can be reached from another machine."""

from __future__ import annotations

import ipaddress
import re

from tfdist.problems import shown

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")


def split(address: str) -> tuple[str, int]:
    """Splits a valid address into host (IPv6 without its brackets) and port.

    Example:
        >>> split("[::1]:2222")
        ('::1', 2222)
    """
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def is_this_machine_only(address: str) -> bool:
    """Tells whether a valid address works from its own machine alone, as `localhost` and `127.0.0.1` do."""
    host = split(address)[0].casefold().removesuffix(".")
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return ip.is_loopback or ip.is_unspecified


def mistake(address: object) -> tuple[str, str] | None:
    """Says what is wrong with an address, and the fix; None if it is a valid `host:port`."""
    if not isinstance(address, str):
        return f"{shown(address)} is not an address; an address is text, `host:port`.", 'write "host:port"'
    if "://" in address:
        bare = address.split("://", 1)[1].rstrip("/")
        return f"{shown(address)} has a scheme; an address is `host:port` alone.", f"write {bare}"
    if address != address.strip() or not address:
        return f"{shown(address)} is not an address; an address is `host:port`.", (
            f"write {address.strip()}" if address.strip() else "write host:port"
        )
    if _is_ipv6(address):
        return f"{shown(address)} has no brackets, so its port cannot be told from the rest.", (
            "write [host]:port, such as [::1]:2222"
        )
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return f"{shown(address)} has no port; an address is `host:port`.", f"write {address}:2222"
    if not (port.isascii() and port.isdigit()):
        return f"{shown(address)} has the port {shown(port)}; a port is a number from 1 to 65535.", (
            f"write {host}:2222, with the port on which that task listens"
        )
    if not 1 <= int(port) <= 65535:
        meaning = " (0 means any port, which the other tasks cannot know)" if int(port) == 0 else ""
        return f"{shown(address)} has the port {port}; a port is a number from 1 to 65535{meaning}.", (
            f"write {host}:2222, with the port on which that task listens"
        )
    if not _is_host(host):
        return f"{shown(address)} has the host {shown(host)}, which is not a host name or IP address.", (
            f"write host:{port}, with the name or address of that machine"
        )
    return None


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        return _is_ipv6(host[1:-1])
    if re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return False
        return True
    return _HOST.fullmatch(host) is not None
