"""The errors tfdist raises, and the exit code each one means on the command line.

Every message says what is wrong with the value received, then the rule, then a line `Fix: …` that can
be done as written.
"""

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_CLUSTER = 3
EXIT_INTERRUPTED = 130


class TfdistError(Exception):
    """Base of every error that tfdist raises on purpose.

    Args:
        problem: One sentence or two: what is wrong, with the value received, and the rule.
        fix: What to do about it, as it can be typed or edited. Printed after `Fix: `.
    """

    exit_code = EXIT_FAILED

    def __init__(self, problem: str, fix: str = "") -> None:
        self.problem = problem
        self.fix = fix
        super().__init__(f"{problem}\nFix: {fix}" if fix else problem)


class ConfigError(TfdistError):
    """A value the user wrote is wrong: in the YAML, in TF_CONFIG, on the command line or as an argument."""

    exit_code = EXIT_USAGE


class ClusterError(TfdistError):
    """A task of the cluster cannot be reached, or did not answer in time."""

    exit_code = EXIT_CLUSTER


class TrainingError(TfdistError):
    """Training started and could not go on."""

    exit_code = EXIT_FAILED
