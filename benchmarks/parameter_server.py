"""Steps per second of the digits under a parameter server, with tfdist and with Keras 2.

    python benchmarks/parameter_server.py [--rounds 8] [--json parameter_server.json]

Every variant has a cluster of its own: a chief, 2 workers and 1 ps, each a process on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from table import format_table, median_and_spread, quartiles, ratios, write_json
from turns import Measured, Turns, take_turns

from tfdist.cluster import Cluster
from tfdist.launch.local import run_local

WARM_UP = 2  # epochs
TASK = Path(__file__).with_name("parameter_server_task.py")


def main() -> None:
    """Measures and prints."""
    arguments = _parse()
    settings = {"steps": arguments.steps, "batch_size": arguments.batch_size}
    variants: dict[str, tuple[Any, tuple[Any, ...]]] = {"tfdist.fit": (run_cluster, ("tfdist", settings, {}))}
    for steps in arguments.steps_per_execution:
        name = f"Keras 2 fit, steps_per_execution={steps}"
        more = {"steps_per_execution": steps}
        variants[name] = run_cluster, ("keras2", settings | more, {"TF_USE_LEGACY_KERAS": "1"})
    measured = take_turns(variants, warm_up=WARM_UP, rounds=arguments.rounds, patience=arguments.patience)
    _print_table(arguments, measured)
    _require_same_training(arguments, measured)
    if arguments.json is not None:
        write_json(
            arguments.json,
            "parameter_server",
            vars(arguments) | {"json": None},
            {
                name: {"turns": [asdict(turn) for turn in taken.turns], **taken.result}
                for name, taken in measured.items()
            },
        )


def run_cluster(turns: Turns, variant: str, settings: dict[str, Any], environ: dict[str, str]) -> Any:
    """Runs a cluster whose chief takes the turns, and gives what the chief returns."""
    with tempfile.TemporaryDirectory() as directory, open(os.devnull, "w") as nowhere:
        address = str(Path(directory) / "turns")
        results: list[Any] = []
        with Listener(address) as listener:
            threading.Thread(target=_relay, args=(listener, turns.connection, results), daemon=True).start()
            code = run_local(
                [sys.executable, str(TASK), variant, json.dumps(settings), address],
                Cluster.local(workers=2, ps=1),
                log_directory=Path(directory),
                stop_grace=1.0,  # TensorFlow's servers do not hear SIGTERM
                environ={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", **environ},
                output=nowhere,
            )
    if code or not results:
        raise RuntimeError(f"The cluster of {variant} ended with code {code}.")
    return results[0]


def _relay(listener: Listener, parent: Connection, results: list[Any]) -> None:
    """Passes the chief's turns on, and keeps its result."""
    with listener.accept() as chief:
        while True:
            try:
                message = chief.recv()
            except EOFError:
                return
            if message[0] == "result":
                results.append(message[1])
                return
            parent.send(message)
            chief.send(parent.recv())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8, help="epochs of each variant that are measured")
    parser.add_argument("--steps", type=int, default=480, help="updates in an epoch")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument(
        "--steps-per-execution",
        type=int,
        nargs="+",
        default=[1, 16, 60],
        help="for Keras 2; 1 is its default",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=30.0,
        help="seconds to wait before a round while others use the machine",
    )
    parser.add_argument("--json", type=Path, help="file to write everything measured to")
    arguments = parser.parse_args()
    if any(arguments.steps % steps for steps in arguments.steps_per_execution):
        parser.error("--steps-per-execution must divide --steps")
    return arguments


def _print_table(arguments: argparse.Namespace, measured: Mapping[str, Measured]) -> None:
    ours = _steps_per_second(arguments, measured["tfdist.fit"])
    lines = []
    for variant, taken in measured.items():
        speed = _steps_per_second(arguments, taken)
        cpu = quartiles([turn.cpu_seconds for turn in taken.turns])[1] / arguments.steps
        ratio = "" if variant == "tfdist.fit" else median_and_spread(ratios(ours, speed), 2)
        lines.append([variant, median_and_spread(speed, 0), f"{1000 * cpu:.1f}", ratio])
    others = max(turn.others for taken in measured.values() for turn in taken.turns)
    print(
        f"\ndigits, 64-128-128-10, {arguments.steps} steps an epoch, batch {arguments.batch_size}, chief + 2"
        f" workers + 1 ps; median (middle half) of {len(ours)} rounds; others used up to {others:.0%} of the"
        " machine\n"
    )
    print(format_table(["", "steps/s", "CPU ms/step", "tfdist / this"], lines), flush=True)


def _steps_per_second(arguments: argparse.Namespace, taken: Measured) -> list[float]:
    return [arguments.steps / seconds for seconds in taken.seconds]


def _require_same_training(arguments: argparse.Namespace, measured: Mapping[str, Measured]) -> None:
    """Stops with an error if a variant did not do the updates asked for, or did not learn the digits."""
    print()
    for variant, taken in measured.items():
        result = taken.result
        updates = arguments.steps * len(result["losses"])
        if result["updates"] != updates:
            raise SystemExit(
                f"Not comparable: {variant} did {result['updates']} updates instead of {updates}."
            )
        if not result["accuracies"][-1] > 0.97:
            raise SystemExit(
                f"Not comparable: {variant} reached an accuracy of {result['accuracies'][-1]:.3f} only."
            )
        print(
            f"{variant}: {updates:,} updates, loss {result['losses'][0]:.4f} -> {result['losses'][-1]:.4f}, "
            f"accuracy {result['accuracies'][-1]:.4f}"
        )


if __name__ == "__main__":
    main()
