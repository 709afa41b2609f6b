"""Solves problems in one task, one after the other, and writes each result as a line of JSON.

    python run_problems.py DIRECTORY JSON

JSON maps the kinds to the names of their problems. In a cluster there is one kind, and every task solves its
problems together with the others. Else the number of the task says which kind it solves, on its own.
"""

import json
import os
import sys
import time
import traceback
from pathlib import Path

from tests.parity.kinds import ASYNCHRONOUS, KINDS


def main(directory: Path, problems_of_kinds: dict[str, list[str]]) -> None:
    """Solves the problems of this task."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    names = list(problems_of_kinds)
    kind = KINDS[names[0]]
    if not kind.tasks:
        kind = KINDS[names[task["index"]]]
        del os.environ["TF_CONFIG"]

    import keras

    from tests.parity.problem import solve, solve_with_keras
    from tests.parity.problems import EVERY_PROBLEM
    from tfdist import make_strategy

    strategy = make_strategy(kind.strategy, **kind.options) if kind.strategy else None
    with (directory / f"{kind.name}-{task['type']}-{task['index']}.jsonl").open("w") as results:
        for name in problems_of_kinds[kind.name]:
            print(f"{kind.name}: {name}", flush=True)
            begun = time.process_time()
            try:
                if strategy is None:
                    result = solve_with_keras(EVERY_PROBLEM[name])
                else:
                    result = solve(EVERY_PROBLEM[name], strategy, reevaluate=kind.name == ASYNCHRONOUS)
            except Exception:
                traceback.print_exc()
                result = {"error": traceback.format_exc()}
            seconds = round(time.process_time() - begun, 2)
            print(json.dumps({"problem": name, "seconds": seconds, **result}), file=results, flush=True)
            keras.backend.clear_session()


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
