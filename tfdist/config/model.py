"""The YAML file as typed models. Every key that is accepted here does something."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, PrivateAttr, model_serializer, model_validator
from pydantic.json_schema import GetJsonSchemaHandler, JsonSchemaValue
from pydantic_core import CoreSchema

from tfdist.cluster import Cluster, resolve
from tfdist.config.data import AnyData
from tfdist.config.learning_rate import LearningRateSection
from tfdist.config.overrides import OverriddenSource
from tfdist.config.section import Arguments, BuildPath, Positive, Section, refuse
from tfdist.errors import ConfigError
from tfdist.problems import Path, dotted, shown

DEFAULT_STARTUP_TIMEOUT = 60.0


class LocalSection(Section):
    """Tasks on this machine, which `tfdist fit` starts and looks after; at least one worker or a chief."""

    workers: int = Field(0, ge=0, description="How many workers.", examples=[2])
    ps: int = Field(0, ge=0, description="How many parameter servers.", examples=[1])
    chief: bool | None = Field(
        None,
        description="Whether there is a chief beside the workers. Left out: only with parameter servers.",
        examples=[True],
    )
    evaluator: bool = Field(
        False,
        description="Whether there is an evaluator. `tfdist fit` has no work for one yet.",
        examples=[True],
    )


_HOSTS_EXAMPLE = ["host1:2222", "host2:2222"]


class ClusterSection(Section):
    """The tasks of the job: either `local`, or their addresses."""

    local: LocalSection | None = Field(None, description="Tasks on this machine.", examples=[{"workers": 2}])
    chief: list[str] | None = Field(
        None, description="Address of the chief, as `[host:port]`.", examples=[["host0:2222"]]
    )
    worker: list[str] | None = Field(
        None, description="Addresses of the workers, as `[host:port, …]`.", examples=[_HOSTS_EXAMPLE]
    )
    ps: list[str] | None = Field(
        None,
        description="Addresses of the parameter servers, as `[host:port, …]`.",
        examples=[["host3:2222"]],
    )
    evaluator: list[str] | None = Field(
        None,
        description="Address of the evaluator, as `[host:port]`. `tfdist fit` has no work for one yet.",
        examples=[["host4:2222"]],
    )

    def as_mapping(self) -> dict[str, Any]:
        """Gives the section as the YAML wrote it."""
        return self.model_dump(exclude_none=True)


class ModelSection(Section):
    """The model."""

    build: BuildPath = Field(
        description=(
            "Function that returns a `keras.Model`, compiled or not, as `module:function`. "
            "It is called inside the strategy's scope. The module is looked for in the current folder too."
        ),
        examples=["my_model:build_model"],
    )
    args: Arguments = Field(
        default_factory=dict, description="Arguments for that function, by name.", examples=[{"hidden": 128}]
    )


class Optimizer(Section):
    """A Keras optimizer: its name, and its arguments."""

    name: str = Field(
        min_length=1,
        description="A name that Keras knows, such as `adam`; or `lars`, `lamb`.",
        examples=["adamw"],
    )
    arguments: Arguments = Field(default_factory=dict, description="Its arguments, by name.")

    @model_validator(mode="before")
    @classmethod
    def _from_name_or_mapping(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"name": given}
        if not isinstance(given, dict):
            raise refuse(
                f"{shown(given)} is neither a name nor a mapping.",
                "write optimizer: adam, or optimizer: {name: adam, learning_rate: 0.001}",
            )
        arguments = {key: value for key, value in given.items() if key != "name"}
        return (
            {"name": given["name"], "arguments": arguments} if "name" in given else {"arguments": arguments}
        )

    @model_serializer
    def _as_written(self) -> dict[str, Any]:
        return {"name": self.name, **self.arguments}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        name = {"type": "string", "minLength": 1, "description": "A name that Keras knows, such as `adam`."}
        mapping = {"type": "object", "properties": {"name": name}, "required": ["name"]}
        return {"anyOf": [name, mapping | {"additionalProperties": True}]}


class TrainSection(Section):
    """How to train."""

    global_batch_size: Positive | None = Field(
        None,
        description=(
            "Rows in one optimizer update, over all replicas and micro-batches. May be left "
            "out only where the data comes in batches of its own, as a `tf.data.Dataset` does."
        ),
        examples=[64],
    )
    epochs: Positive = Field(1, description="How many times to go through the data.", examples=[10])
    optimizer: Optimizer | None = Field(
        None,
        description=(
            "A name, or a mapping with the name and the optimizer's arguments. May be left "
            "out if the model is compiled."
        ),
        examples=["adam", {"name": "adamw", "weight_decay": 0.01}],
    )
    loss: str | dict[str, str] | None = Field(
        None,
        description=(
            "Name of a Keras loss, or one for each output by the output's name. May be left "
            "out if the model is compiled."
        ),
        examples=["sparse_categorical_crossentropy"],
    )
    loss_weights: dict[str, float] | None = Field(
        None,
        description="How much each output's loss counts, by the output's name.",
        examples=[{"digit": 1.0}],
    )
    metrics: list[str] = Field(
        default_factory=list, description="Names of Keras metrics.", examples=[["accuracy"]]
    )
    seed: int | None = Field(
        None,
        ge=0,
        lt=2**32,
        description=(
            "Seed of the first weights, the order of the rows and dropout. Left out: different on each run."
        ),
        examples=[7],
    )
    steps_per_epoch: Positive | None = Field(
        None,
        description=(
            "Optimizer updates in one epoch. Left out: once through the data. Needed for data without an end."
        ),
        examples=[100],
    )
    steps_per_call: Positive | None = Field(
        None,
        description=(
            "Optimizer updates that run in one call of TensorFlow. More is faster; callbacks "
            "get their turn between calls. Left out: tfdist chooses."
        ),
        examples=[20],
    )
    shuffle: bool = Field(
        True, description="Whether each epoch has the rows in a new order.", examples=[False]
    )
    accumulate_steps: Positive = Field(
        1,
        description=(
            "Micro-batches into which each replica splits its part of the global batch, "
            "adding up their gradients, to save memory."
        ),
        examples=[4],
    )
    clip_global_norm: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Scales the gradient of the whole global batch down to this norm where it is longer.",
        examples=[1.0],
    )
    learning_rate: LearningRateSection | None = Field(
        None,
        description=(
            "The learning rate over the run. Replaces that of the optimizer. Left out: the "
            "optimizer's own `learning_rate`."
        ),
        examples=[{"base": 0.1, "base_batch_size": 64, "warmup_epochs": 1, "decay": "cosine"}],
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] | None = Field(
        None,
        description=(
            "Keras dtype policy to build the model with. `mixed_float16` comes with a loss scale that "
            "adapts itself. Left out: what the function that builds the model chooses."
        ),
        examples=["mixed_bfloat16"],
    )
    synchronized_batch_norm: bool = Field(
        False,
        description=(
            "Whether BatchNormalization layers use the statistics of the global batch instead of "
            "those of each replica's part."
        ),
        examples=[True],
    )
    verbose: Literal["auto", 0, 1, 2] = Field(
        "auto",
        description=(
            "What the chief shows: 0 nothing, 1 a progress bar, 2 a line for each epoch, "
            "`auto` a bar on a terminal."
        ),
        examples=[2],
    )


class LaunchSection(Section):
    """How the tasks are started."""

    startup_timeout: float = Field(
        DEFAULT_STARTUP_TIMEOUT,
        gt=0,
        allow_inf_nan=False,
        description=(
            "Seconds to wait for all tasks of the cluster to start. Then `tfdist` ends with "
            "exit code 3 and names the missing ones."
        ),
        examples=[120],
    )


class StrategySection(Section):
    """How the work is shared out. The other keys are the options of the kind."""

    kind: str = Field(description="Which strategy.", examples=["mirrored"])


class RunConfig(Section):
    """What a YAML file says: everything `tfdist fit` needs.

    `strategy` is an instance of the kind's own options class, with `kind` added. Get one with `load`.
    """

    strategy: StrategySection = Field(
        description="How the work is shared out: the kind, and its options.", examples=[{"kind": "mirrored"}]
    )
    cluster: ClusterSection | None = Field(
        None,
        description="The tasks of the job. Left out: found in TF_CONFIG; without that, one process.",
        examples=[{"local": {"workers": 2}}],
    )
    model: ModelSection = Field(description="The model.", examples=[{"build": "my_model:build_model"}])
    data: AnyData = Field(
        description="The data: from a function, or from files.", examples=[{"build": "my_data:load"}]
    )
    train: TrainSection = Field(
        default_factory=TrainSection, description="How to train.", examples=[{"global_batch_size": 64}]
    )
    launch: LaunchSection = Field(
        default_factory=LaunchSection,
        description="How the tasks are started.",
        examples=[{"startup_timeout": 120}],
    )

    _source: OverriddenSource | None = PrivateAttr(default=None)

    def where(self, *path: str | int) -> str:
        """Gives the place of a value, to begin an error with.

        Example:
            >>> config.where("train", "optimizer")  # doctest: +SKIP
            'my.yaml:12: train.optimizer'
        """
        return ": ".join(filter(None, (self._locate(path), dotted(path))))

    def _locate(self, path: Path) -> str:
        return self._source.locate(path) if self._source else "RunConfig"

    def resolve_cluster(self, environ: Mapping[str, str] = os.environ) -> Cluster | None:
        """Puts together what the YAML and the environment say of the cluster.

        Args:
            environ: The environment variables.

        Returns:
            The cluster; None if this process trains alone. Its `task` is None only for `cluster.local`
            outside of a task, where the caller has to start the tasks.

        Raises:
            ConfigError: The two contradict each other, or nothing says which of the tasks this process is.
        """
        cluster = self.known_cluster(environ)
        if cluster is not None and cluster.task is None and self.cluster and self.cluster.local is None:
            file = self._source.file.name if self._source else "CONFIG"
            raise ConfigError(
                f"{self.where('cluster')}: it lists {', '.join(map(str, cluster.tasks))}, "
                "and nothing says which of them this process is.",
                f"on the machine of {cluster.chief}, run\n"
                f'  TF_CONFIG="$(tfdist cluster tf-config {file} --task {cluster.chief})" tfdist fit {file}\n'
                "and the same with the other tasks on theirs",
            )
        return cluster

    def known_cluster(self, environ: Mapping[str, str]) -> Cluster | None:
        """Gives the cluster as far as it is known; its task may be None for any cluster."""
        section = self.cluster.as_mapping() if self.cluster else None
        return resolve(section, lambda path: self._locate(("cluster", *path)), environ)
