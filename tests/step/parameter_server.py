"""Run in every task: trains two problems under `parameter_server`, where one worker updates in order."""

import json

import tfdist
from tests.step.problems import PROBLEMS, solve


def main() -> None:
    strategy = tfdist.make_strategy("parameter_server", tfdist.Cluster.discover())
    found = {name: [w.tolist() for w in solve(PROBLEMS[name], strategy)] for name in ("sgd", "lars")}
    print("WEIGHTS", json.dumps(found))
    try:
        solve(PROBLEMS["sgd, corrected"], strategy)
    except tfdist.ConfigError as error:
        print("REFUSED", str(error).replace("\n", " "))


main()
