"""Which kind solves which problem, and which refuses it."""

from __future__ import annotations

from tests.parity.kinds import EXACT, KINDS, REFERENCES
from tests.parity.problems import PROBLEMS, in_parts

# Three replicas differ from two only in how rows are divided, and three processes from two only in number.
# `search.py` tries more replicas, with more divisions.
THREE_WORKERS = ("ragged_49", "one_row_in_all", "predict_1")
THREE_REPLICAS = (
    *THREE_WORKERS,
    "ragged_57",
    "a_replica_whose_rows_weigh_nothing",
    "accumulate_3_class_weights_49",
    "masked_accumulated",
)


def is_refused(kind: str, problem: str) -> bool:
    """Tells whether a kind refuses a problem."""
    return KINDS[kind].strategy in PROBLEMS[problem].refused


def reference_of(kind: str, problem: str) -> str:
    """Gives the name of the problem that one device solves to be compared with a kind's result."""
    copies = KINDS[kind].copies
    if problem in PROBLEMS and PROBLEMS[problem].same_parts and copies > 1:
        return in_parts(PROBLEMS[problem], copies).name
    return problem


def given_to(kind: str) -> list[str]:
    """Gives the names of the problems that a kind is given."""
    if kind in (*REFERENCES, "mirrored_2"):
        return list(PROBLEMS)
    chosen = {"mirrored_3": THREE_REPLICAS, "multi_worker_3": THREE_WORKERS}.get(kind, tuple(PROBLEMS))
    return [name for name in chosen if not PROBLEMS[name].narrow]


def solved_by(kind: str) -> list[str]:
    """Gives the names of the problems that a kind solves."""
    return [name for name in given_to(kind) if not is_refused(kind, name)]


SOLVED = [(kind, name) for kind in EXACT for name in solved_by(kind)]
REFUSED = [
    (kind, name) for kind in ("one_device", *EXACT) for name in given_to(kind) if is_refused(kind, name)
]
