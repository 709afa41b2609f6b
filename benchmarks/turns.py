"""Processes that take turns, one epoch at a time, so that each round measures every variant in the same
minute.

Each variant is a process of its own (or starts some): none shares threads, memory or compiled functions with
another, and the ones whose turn it is not are blocked.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from quiet import Load, wait_for_quiet

START_SECONDS = 300.0
MANY_TURNS = 10**6  # for a `fit` that wants to know its epochs; `Turns.end` says when it is enough
DISTURBED = 0.05  # part of the machine that others may use
MOST_ROUNDS = 3  # times the rounds asked for


@dataclass
class Turn:
    """One turn of one variant.

    Attributes:
        seconds: How long it took.
        cpu_seconds: Processor time over all threads and processes of the variant.
        others: Part of the machine that others used meanwhile.
    """

    seconds: float
    cpu_seconds: float
    others: float


@dataclass
class Measured:
    """What one variant did: its turns, one for each round, and what it returned."""

    turns: list[Turn]
    result: Any

    @property
    def seconds(self) -> list[float]:
        """Gives the seconds of each turn."""
        return [turn.seconds for turn in self.turns]


class Turns:
    """A variant's side: it waits for its turn, then tells how long it took."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def begin(self) -> None:
        """Waits for the turn."""
        self.connection.send(("ready",))
        self.connection.recv()
        self._begun = time.perf_counter()

    def end(self) -> bool:
        """Ends the turn and tells whether there will be another."""
        self.connection.send(("took", time.perf_counter() - self._begun))
        return self.connection.recv() == "again"


def take_turns(
    variants: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]],
    *,
    warm_up: int,
    rounds: int,
    patience: float,
) -> dict[str, Measured]:
    """Runs every variant in a process of its own, one turn in each round.

    Where others use the machine, there are up to three times as many rounds, and those with the least
    disturbance count.

    Args:
        variants: By name, a function that can be imported and its arguments. It is called with a `Turns`
            before them, and calls `begin` and `end` in turn for as long as `end` gives True.
        warm_up: First turns of each variant, which are not measured.
        rounds: Rounds to measure. Each begins with another variant.
        patience: Seconds to wait before each round for others to leave the machine alone.

    Returns:
        What was measured, by name.

    Raises:
        RuntimeError: If a variant fails, with its traceback.
    """
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        connections: dict[str, Connection] = {}
        for name, (function, arguments) in variants.items():
            ours, theirs = context.Pipe()
            process = context.Process(target=_run, args=(theirs, function, arguments), name=name)
            process.start()
            theirs.close()
            stack.callback(_end, process, ours)
            connections[name] = ours
            for _ in range(warm_up):
                _one_turn(name, ours)
                ours.send("again")
        done = _rounds(connections, rounds, patience)
        done.sort(key=_disturbance)
        measured = {}
        for name, connection in connections.items():
            turns = [turns_of_round[name] for turns_of_round in done[:rounds]]
            measured[name] = Measured(turns, _receive(name, connection)[1])
        return measured


def _rounds(connections: Mapping[str, Connection], rounds: int, patience: float) -> list[dict[str, Turn]]:
    order, done = list(connections), []
    quiet = 0
    while True:
        wait_for_quiet(DISTURBED, patience)
        first = len(done) % len(order)
        turns = {name: _one_turn(name, connections[name]) for name in order[first:] + order[:first]}
        done.append(turns)
        quiet += _disturbance(turns) < DISTURBED
        more = quiet < rounds and len(done) < MOST_ROUNDS * rounds
        for connection in connections.values():
            connection.send("again" if more else "enough")
        if not more:
            return done


def _disturbance(turns: Mapping[str, Turn]) -> float:
    return max(turn.others for turn in turns.values())


def _one_turn(name: str, connection: Connection) -> Turn:
    _receive(name, connection)
    load = Load()
    connection.send("go")
    _, seconds = _receive(name, connection)
    return Turn(seconds, *load.since())


def _receive(name: str, connection: Connection) -> Any:
    if not connection.poll(START_SECONDS):
        raise RuntimeError(f"{name} did not answer within {START_SECONDS:g} s.")
    try:
        message = connection.recv()
    except EOFError:
        raise RuntimeError(f"The process of {name} ended unexpectedly.") from None
    if message[0] == "failed":
        raise RuntimeError(f"{name} failed:\n{message[1]}")
    return message


def _end(process: Any, connection: Connection) -> None:
    connection.close()
    process.join(10)
    process.kill()
    process.join()


def _run(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        connection.send(("result", function(Turns(connection), *arguments)))
    except EOFError:  # the parent has ended
        pass
    except BaseException:
        connection.send(("failed", traceback.format_exc()))
