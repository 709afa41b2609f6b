"""Rows per second of `tfdist.fit` on one device, of Keras `fit` and of a loop written by hand.

python benchmarks/fit_overhead.py [--models mlp cnn] [--rounds 8] [--json fit_overhead.json]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from fit_variants import Outcome, Training, run_by_hand, run_keras, run_tfdist
from table import compared, format_table, median_and_spread, ratios, write_json
from turns import Measured, take_turns
from workloads import WORKLOADS

WARM_UP = 2  # turns: the first ones trace and compile, and tfdist finds its pace
VARIANTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "tfdist.fit": (run_tfdist, ()),
    "Keras fit": (run_keras, ({},)),
    "Keras fit, steps_per_execution=16": (run_keras, ({"jit_compile": False, "steps_per_execution": 16},)),
    "written by hand": (run_by_hand, ()),
}
LARGEST_DIFFERENCE_OF_LOSSES = 1e-3  # as a part of the loss
LARGEST_DIFFERENCE_OF_WEIGHTS = 1e-2  # rounding grows to a tenth of it in some hundred updates


def main() -> None:
    """Measures and prints."""
    arguments = _parse()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    results = {}
    for name in arguments.models:
        workload = WORKLOADS[name]
        batch_size = arguments.batch_size or workload.batch_size
        if batch_size % arguments.accumulate_steps:
            raise SystemExit(f"--accumulate-steps must divide the batch size, {batch_size}.")
        rows = arguments.rows or workload.rows
        training = Training(
            name,
            rows - rows % batch_size,
            batch_size,
            arguments.accumulate_steps,
            arguments.clip_global_norm,
            arguments.shuffle,
            workload.validation_rows,
            workload.epochs_per_turn,
        )
        measured = take_turns(
            {variant: (run, (training, *more)) for variant, (run, more) in VARIANTS.items()},
            warm_up=WARM_UP,
            rounds=arguments.rounds,
            patience=arguments.patience,
        )
        _print_table(training, measured)
        _require_same_training(training, {variant: taken.result for variant, taken in measured.items()})
        results[name] = _as_json(training, measured)
        if arguments.json is not None:
            write_json(arguments.json, "fit_overhead", vars(arguments) | {"json": None}, results)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=sorted(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=8, help="turns of each variant that are measured")
    parser.add_argument("--rows", type=int, help="rows of an epoch (default: by model)")
    parser.add_argument("--batch-size", type=int, help="rows of an update (default: by model)")
    parser.add_argument("--accumulate-steps", type=int, default=1, help="micro-batches in an update")
    parser.add_argument("--clip-global-norm", type=float, help="longest gradient")
    parser.add_argument("--shuffle", action="store_true", help="shuffle; results are then not compared")
    parser.add_argument(
        "--patience",
        type=float,
        default=30.0,
        help="seconds to wait before a round while others use the machine",
    )
    parser.add_argument("--json", type=Path, help="file to write everything measured to")
    return parser.parse_args()


def _print_table(training: Training, measured: Mapping[str, Measured]) -> None:
    ours = _rows_per_second(training, measured["tfdist.fit"])
    lines = []
    for variant, taken in measured.items():
        speed = _rows_per_second(training, taken)
        epochs = training.epochs_per_turn
        epoch = np.median(taken.seconds) / epochs
        cpu = np.median([turn.cpu_seconds for turn in taken.turns]) / epochs
        lines.append(
            [
                variant,
                median_and_spread(speed, 0),
                f"{1000 * epoch:,.0f}",
                f"{1000 * cpu:,.0f}",
                median_and_spread(ratios(ours, speed), 2) if variant != "tfdist.fit" else "",
            ]
        )
    extras = "".join(
        [
            f", {training.accumulate_steps} micro-batches" if training.accumulate_steps > 1 else "",
            f", clipped to {training.clip_global_norm:g}" if training.clip_global_norm is not None else "",
            ", shuffled" if training.shuffle else "",
            f", {training.validation_rows} rows of validation" if training.validation_rows else "",
        ]
    )
    print(
        f"\n{training.workload}: {training.rows:,} rows an epoch, batch {training.batch_size}{extras}; "
        f"median (middle half) of {len(measured['tfdist.fit'].turns)} rounds; others used up to "
        f"{max(turn.others for taken in measured.values() for turn in taken.turns):.0%} of the machine\n"
    )
    print(format_table(["", "rows/s", "ms/epoch", "CPU ms/epoch", "tfdist / this"], lines), flush=True)


def _rows_per_second(training: Training, taken: Measured) -> list[float]:
    return [training.epochs_per_turn * training.rows / seconds for seconds in taken.seconds]


def _require_same_training(training: Training, outcomes: Mapping[str, Outcome]) -> None:
    """Stops with an error if a variant did less or something else than the others."""
    reference = outcomes["written by hand"]
    updates = len(reference.losses) * (training.rows // training.batch_size)
    differences = {}
    for variant, outcome in outcomes.items():
        if outcome.updates != updates:
            raise SystemExit(f"Not comparable: {variant} did {outcome.updates} updates instead of {updates}.")
        if not outcome.losses[-1] < outcome.losses[0]:
            raise SystemExit(f"Not comparable: the loss of {variant} did not fall: {outcome.losses}.")
        if not training.shuffle:
            loss = abs(outcome.losses[-1] - reference.losses[-1]) / reference.losses[-1]
            weights = float(np.abs(outcome.weights - reference.weights).max())
            differences[variant] = loss, weights
            if loss > LARGEST_DIFFERENCE_OF_LOSSES or weights > LARGEST_DIFFERENCE_OF_WEIGHTS:
                raise SystemExit(
                    f"Not comparable: the last loss of {variant} is {outcome.losses[-1]} and that of the loop"
                    f" written by hand {reference.losses[-1]}; their weights differ by up to {weights:.2g}."
                )
    print(
        f"\nEach did {updates:,} updates; loss {reference.losses[0]:.4f} -> {reference.losses[-1]:.4f}.",
        end="",
    )
    for variant, (loss, weights) in differences.items():
        if variant != "written by hand":
            print(f" {variant}: loss differs by {loss:.0e}, weights by {weights:.0e}.", end="")
    print(flush=True)


def _as_json(training: Training, measured: Mapping[str, Measured]) -> dict[str, Any]:
    ours = _rows_per_second(training, measured["tfdist.fit"])
    return {
        variant: {
            **compared(ours, _rows_per_second(training, taken), taken.turns),
            "updates": taken.result.updates,
            "losses": taken.result.losses,
            "accuracy": taken.result.accuracy,
        }
        for variant, taken in measured.items()
    }


if __name__ == "__main__":
    main()
