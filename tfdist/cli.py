"""The command `tfdist`. It imports what a command needs only then, so that help and errors come at once."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tfdist.errors import EXIT_CLUSTER, EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, ConfigError, TfdistError

_EXIT_CODES = """\
exit codes:
  0    done
  1    training failed
  2    wrong usage or configuration; nothing was started
  3    a task of the cluster could not be reached in time
  130  interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: What follows `tfdist`; by default, that of this process.

    Returns:
        The exit code.
    """
    try:
        options = _parse(list(sys.argv[1:] if arguments is None else arguments))
        _start_logging()
        code: int = options.run(options)
        sys.stdout.flush()
    except TfdistError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # as in `tfdist schema | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except Exception:
        traceback.print_exc()
        return EXIT_FAILED
    return code


def _start_logging() -> None:
    from absl import flags, logging

    if not flags.FLAGS.is_parsed():  # or absl warns of that before the first line
        flags.FLAGS(["tfdist"])
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are ours: what is wrong, the nearest right name, exit code 2."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)
        self.commands: dict[str, _Parser] = {}

    def add_commands(self, title: str) -> Callable[..., _Parser]:
        """Gives a function that adds a command."""
        group = self.add_subparsers(title="commands", metavar=title, required=True, parser_class=_Parser)

        def add(name: str, text: str, **settings: Any) -> _Parser:
            self.commands[name] = group.add_parser(name, help=text, description=text, **settings)
            return self.commands[name]

        return add

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.prog}: {message}.", f"see `{self.prog} --help`")

    def check_command(self, arguments: Sequence[str]) -> _Parser:
        """Gives the parser of the command that the arguments name, after refusing unknown ones."""
        from tfdist.problems import nearest, shown

        if not self.commands or not arguments or arguments[0].startswith("-"):
            return self
        name, *rest = arguments
        if name not in self.commands:
            meant = nearest(name, self.commands)
            raise ConfigError(
                f"{self.prog}: there is no command {shown(name)}; there are {', '.join(self.commands)}.",
                f"did you mean `{self.prog} {meant}`?" if meant else f"see `{self.prog} --help`",
            )
        return self.commands[name].check_command(rest)

    def refuse_unknown(self, unknown: Sequence[str]) -> None:
        """Refuses arguments that the command does not take."""
        from tfdist.problems import nearest

        first = unknown[0].partition("=")[0]
        meant = nearest(first, set(re.findall(r"--[\w-]+", self.format_usage())))
        raise ConfigError(
            f"{self.prog}: it does not take {' '.join(unknown)}.",
            f"did you mean {meant}?" if meant else f"remove {first}; see `{self.prog} --help`",
        )


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"tfdist {version('tfdist')}")
        parser.exit()


def _parse(arguments: list[str]) -> argparse.Namespace:
    command: list[str] = []
    if "--" in arguments:
        split = arguments.index("--")
        arguments, command = arguments[:split], arguments[split + 1 :]
    parser = _parser()
    if not arguments:
        parser.print_help()
        parser.exit(2)
    chosen = parser.check_command(arguments)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        chosen.refuse_unknown(unknown)
    if command and options.run is not _launch:
        chosen.refuse_unknown(["--", *command])
    options.command = command
    return options


def _parser() -> _Parser:
    parser = _Parser(
        prog="tfdist",
        description="Trains Keras 3 models on many devices and machines: N devices behave as one big device.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    add = parser.add_commands("COMMAND")

    fit = add("fit", "Train the model that a YAML file describes.", epilog=_EXIT_CODES)
    fit.add_argument("config", metavar="CONFIG", help="the YAML file; its keys are in docs/yaml.md")
    _add_overrides(fit, "replace a value of the file, such as train.epochs=20; can be given several times")
    fit.add_argument(
        "--workdir",
        metavar="DIR",
        type=Path,
        help="where history.json, model.keras and the logs go",
    )
    fit.set_defaults(run=_fit)

    launch = add(
        "launch",
        "Run a command once for each task of a cluster on this machine, each with its TF_CONFIG.",
        usage="tfdist launch [--workers N] [--ps M] [--chief] [--evaluator] [--workdir DIR] -- COMMAND …",
        epilog=f"example:\n  tfdist launch --workers 2 -- python train.py\n\n{_EXIT_CODES}",
    )
    launch.add_argument("--workers", metavar="N", type=int, default=0, help="how many workers")
    launch.add_argument("--ps", metavar="M", type=int, default=0, help="how many parameter servers")
    launch.add_argument(
        "--chief",
        action=argparse.BooleanOptionalAction,
        help="whether there is a chief; left out: only with parameter servers",
    )
    launch.add_argument("--evaluator", action="store_true", help="add an evaluator")
    launch.add_argument("--workdir", metavar="DIR", type=Path, help="where each task's log-TASK.txt goes")
    launch.set_defaults(run=_launch)

    cluster = add("cluster", "Look at the cluster.")
    add_cluster = cluster.add_commands("show|tf-config|check")
    show = add_cluster("show", "Show the tasks, their addresses and where that was learned.")
    show.set_defaults(run=_cluster_show)
    tf_config = add_cluster("tf-config", "Print the TF_CONFIG of one task.")
    tf_config.set_defaults(run=_cluster_tf_config)
    check = add_cluster("check", "Try to connect to the other tasks.", epilog=_EXIT_CODES)
    check.add_argument("--timeout", metavar="SECONDS", type=float, default=5.0, help="by default, 5")
    check.set_defaults(run=_cluster_check)
    for each in (show, tf_config, check):
        each.add_argument(
            "config",
            metavar="CONFIG",
            nargs="?",
            help="a YAML file with a section cluster; left out: the environment (TF_CONFIG)",
        )
        each.add_argument("--task", metavar="TYPE:INDEX", help="as this task, such as worker:1")

    data = add("data", "Look at the data.")
    add_data = data.add_commands("report")
    report = add_data(
        "report",
        "Show which task reads which rows, whether each row is read once, and whether the input keeps up.",
        epilog=_EXIT_CODES.replace(
            "training failed", "a row is read more than once, or never; or reading failed"
        ),
    )
    report.add_argument("config", metavar="CONFIG", help="the YAML file")
    _add_overrides(report, "replace a value of the file; can be given several times")
    report.add_argument("--epoch", metavar="N", type=int, default=0, help="which epoch, from 0")
    report.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        default=1.0,
        help="how long to time each task's reading, and training; 0 for not at all; by default, 1",
    )
    report.add_argument(
        "--json", metavar="FILE", type=Path, help="write the report, with all row numbers, there"
    )
    report.set_defaults(run=_data_report)

    schema = add("schema", "Print the JSON Schema of the YAML file, for editors.")
    schema.add_argument("--markdown", action="store_true", help="print docs/yaml.md instead")
    schema.set_defaults(run=_schema)
    return parser


def _add_overrides(command: _Parser, text: str) -> None:
    command.add_argument("--set", metavar="A.B=C", action="append", default=[], dest="overrides", help=text)


def _fit(options: argparse.Namespace) -> int:
    from tfdist.config import load
    from tfdist.strategies.registry import kinds

    load(options.config, options.overrides, kinds=kinds())  # mistakes show before anything else is loaded
    from tfdist.launch.fit import fit

    return fit(options.config, options.overrides, options.workdir)


def _launch(options: argparse.Namespace) -> int:
    from tfdist.cluster import Cluster

    if not options.command:
        raise ConfigError(
            "tfdist launch: there is no command to run; it comes after `--`.",
            "tfdist launch --workers 2 -- python train.py",
        )
    if not options.workers and not options.chief and not options.ps:
        raise ConfigError(
            "tfdist launch: there are no tasks; --workers, --ps and --chief say which there are.",
            f"tfdist launch --workers 2 -- {' '.join(options.command)}",
        )
    from tfdist.launch.local import run_local

    cluster = Cluster.local(options.workers, options.ps, options.chief, options.evaluator)
    return run_local(options.command, cluster, log_directory=options.workdir)


def _cluster_show(options: argparse.Namespace) -> int:
    from tfdist.cluster.report import describe

    print(describe(options.config, options.task))
    return EXIT_DONE


def _cluster_tf_config(options: argparse.Namespace) -> int:
    from tfdist.cluster.report import tf_config

    print(tf_config(options.config, options.task))
    return EXIT_DONE


def _cluster_check(options: argparse.Namespace) -> int:
    from tfdist.cluster.report import check

    text, all_answered = check(options.config, options.task, options.timeout)
    print(text)
    return EXIT_DONE if all_answered else EXIT_CLUSTER


def _data_report(options: argparse.Namespace) -> int:
    from tfdist.config import load
    from tfdist.strategies.registry import kinds

    if options.epoch < 0 or not options.seconds >= 0:
        raise ConfigError(
            f"tfdist data report: --epoch {options.epoch}, --seconds {options.seconds:g}: one is below 0.",
            "leave them out, or count epochs from 0",
        )
    load(options.config, options.overrides, kinds=kinds())  # mistakes show before anything else is loaded
    from tfdist.launch.tensorflow_import import import_tensorflow

    import_tensorflow()
    from tfdist.diagnose.data_report import data_report

    report = data_report(options.config, options.overrides, epoch=options.epoch, seconds=options.seconds)
    print(report)
    if options.json:
        options.json.write_text(json.dumps(report.to_dict()) + "\n")
    return EXIT_FAILED if any(epoch.is_wrong for epoch in report.parts.values()) else EXIT_DONE


def _schema(options: argparse.Namespace) -> int:
    from tfdist.config.reference import markdown
    from tfdist.config.schema import json_schema
    from tfdist.strategies.registry import kinds

    if options.markdown:
        print(markdown(kinds()), end="")
    else:
        print(json.dumps(json_schema(kinds()), indent=2))
    return EXIT_DONE
