"""From a YAML file and `--set` to a `RunConfig`, or to one error that tells all that is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from tfdist import yaml_source
from tfdist.cluster.section import section_problems
from tfdist.config.checks import problems_with
from tfdist.config.data import READERS, DataSection
from tfdist.config.model import RunConfig
from tfdist.config.overrides import OverriddenSource, override
from tfdist.config.schema import KindLike, run_config_type, strategy_types
from tfdist.config.validation import Variants, problems_of
from tfdist.problems import Problem, config_error


def load(
    path: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    kinds: Mapping[str, KindLike],
    environ: Mapping[str, str] = os.environ,
) -> RunConfig:
    """Reads a configuration file; TensorFlow is not imported.

    Args:
        path: The YAML file.
        overrides: Values that replace those of the file, each as `train.epochs=20`.
        kinds: The strategy kinds that `strategy.kind` can name.
        environ: The environment variables; the cluster may be described in TF_CONFIG.

    Returns:
        The configuration, checked as far as that is possible without TensorFlow.

    Raises:
        ConfigError: Something is wrong. For each mistake it tells file and line (or the override), the key,
            the value received, the rule and the fix.
    """
    source = override(yaml_source.read(path), overrides)
    types = strategy_types(kinds)
    model = run_config_type(kinds)
    problems = _cluster_problems(source)
    try:
        config = model.model_validate(source.data)
    except ValidationError as error:
        variants = {
            "strategy": Variants("kind", types),
            "data": Variants("reader", READERS, default=DataSection),
        }
        found = problems_of(error, source.data, model, variants)
        problems += [each for each in found if each.path[:1] != ("cluster",) or not problems]
        _raise(problems, source)
    if problems:
        _raise(problems, source)
    config._source = source
    problems = problems_with(config, config.known_cluster(environ), kinds[config.strategy.kind])
    if problems:
        _raise(problems, source)
    return config


def _cluster_problems(source: OverriddenSource) -> list[Problem]:
    section = source.data.get("cluster")
    if section is None:
        return []
    return [Problem(("cluster", *each.path), each.what, each.fix) for each in section_problems(section)]


def _raise(problems: list[Problem], source: OverriddenSource) -> None:
    raise config_error(sorted(problems, key=lambda each: source.line(each.path)), source.locate)
