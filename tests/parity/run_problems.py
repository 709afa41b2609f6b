"""Solves problems in one process, one after the other, and writes each result as a line of JSON.

    python run_problems.py DIRECTORY JSON

JSON maps the kinds of a wave to the names of their problems. The number of this process, in TF_CONFIG, says
what it is: a task of a kind's cluster, which solves its problems together with the others, or a process on
its own.
"""

import json
import os
import sys
import time
import traceback
from pathlib import Path

from tests.parity.kinds import ASYNCHRONOUS, KINDS, places


def main(directory: Path, problems_of_kinds: dict[str, list[str]]) -> None:
    """Solves the problems of this process."""
    wave = json.loads(os.environ.pop("TF_CONFIG"))
    number = wave["task"]["index"]
    place = places(list(problems_of_kinds), wave["cluster"]["worker"])[number]
    if place.tf_config:
        os.environ["TF_CONFIG"] = place.tf_config
    kind = KINDS[place.kind]
    share, shares = place.share

    import keras

    from tests.parity.problem import solve, solve_with_keras
    from tests.parity.problems import EVERY_PROBLEM
    from tfdist import TfdistError, make_strategy

    strategy = make_strategy(kind.strategy, **kind.options) if kind.strategy else None
    own = directory / kind.name  # for the files that callbacks write, shared by the tasks of a cluster
    own = own if place.tf_config else own / str(share)
    own.mkdir(parents=True, exist_ok=True)
    os.chdir(own)
    with (directory / f"{kind.name}-{number:02}.jsonl").open("w") as results:
        for name in problems_of_kinds[kind.name][share::shares]:
            print(f"{kind.name}: {name}", flush=True)
            begun = time.process_time()
            try:
                if strategy is None:
                    result = solve_with_keras(EVERY_PROBLEM[name])
                else:
                    result = solve(EVERY_PROBLEM[name], strategy, reevaluate=kind.name == ASYNCHRONOUS)
            except Exception as error:
                if not isinstance(error, TfdistError):
                    traceback.print_exc()
                result = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
            seconds = round(time.process_time() - begun, 2)
            print(json.dumps({"problem": name, "seconds": seconds, **result}), file=results, flush=True)
            keras.backend.clear_session()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
