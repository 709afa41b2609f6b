"""The models with the installed strategy kinds put in, and the JSON Schema of the whole file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol, Union

from pydantic import BaseModel, Field, create_model

from tfdist.cluster import Cluster
from tfdist.config.model import RunConfig, StrategySection

DEFAULT_KIND = "one_device"


class KindLike(Protocol):
    """What the configuration needs to know of a strategy kind."""

    @property
    def summary(self) -> str:
        """One line on what it is for."""

    @property
    def options(self) -> type[BaseModel]:
        """Its options: the keys beside `kind`."""

    @property
    def replicas_divisor(self) -> Callable[[Any, Cluster | None], int]:
        """A number that certainly divides the number of replicas."""

    @property
    def check_cluster(self) -> Callable[[Any, Cluster | None], tuple[str, str] | None]:
        """What is wrong with the cluster for this kind, and the fix."""


def strategy_types(kinds: Mapping[str, KindLike]) -> dict[str, type[StrategySection]]:
    """Gives the model of the section `strategy` for each kind: its options, and `kind`."""
    build: Any = create_model  # its types know nothing of bases that are only known here
    return {
        name: build(
            name,
            __base__=(kind.options, StrategySection),
            __doc__=kind.summary,
            kind=(Literal[name], Field(description=f"`{name}`: {kind.summary}")),
        )
        for name, kind in kinds.items()
    }


def run_config_type(kinds: Mapping[str, KindLike]) -> type[RunConfig]:
    """Gives `RunConfig` with the section `strategy` of these kinds."""
    types = strategy_types(kinds)
    union: Any = Union[tuple(types.values())]  # noqa: UP007
    given = RunConfig.model_fields["strategy"]
    field: Any = Field(description=given.description, examples=given.examples)
    if len(types) > 1:  # pydantic allows no discriminator for one
        union = Annotated[union, Field(discriminator="kind")]
    if DEFAULT_KIND in types:
        default = types[DEFAULT_KIND]
        field = Field(
            default_factory=lambda: default(kind=DEFAULT_KIND),
            description=given.description,
            examples=given.examples,
        )
    return create_model("RunConfig", __base__=RunConfig, __doc__=RunConfig.__doc__, strategy=(union, field))


def json_schema(kinds: Mapping[str, KindLike]) -> dict[str, Any]:
    """Gives the JSON Schema of the YAML file, for editors.

    Args:
        kinds: The installed strategy kinds, by name.

    Returns:
        A JSON Schema (draft 2020-12) in which `strategy` is one of the kinds, told apart by `kind`.
    """
    schema = run_config_type(kinds).model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "tfdist",
        "description": "A training run of tfdist.",
    }
