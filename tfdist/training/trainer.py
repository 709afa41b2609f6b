"""`Trainer`: a model, a strategy and the loop, with the parts in hand."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.cluster import Cluster
from tfdist.data.inputs import make_source, size_for, unpack_data
from tfdist.data.position import Position
from tfdist.data.readers.faults import naming_faults
from tfdist.data.source import Source
from tfdist.engines.engine import Engine, engine_for
from tfdist.errors import ConfigError
from tfdist.problems import is_whole
from tfdist.step import keras_private
from tfdist.step.learning_rate import LearningRate
from tfdist.strategies.registry import DEFAULT_STARTUP_TIMEOUT, make_strategy
from tfdist.training.arguments import (
    checked_seed,
    checked_start,
    refuse_without_validation,
    require_labels,
    require_positive,
    require_positive_if_given,
    split_arrays,
    validates_after,
)
from tfdist.training.callbacks import make_callback_list
from tfdist.training.learning_rate import PlannedLearningRate
from tfdist.training.loop import EpochPlan, Passes, run_epochs, run_evaluation
from tfdist.training.model import (
    BuildModel,
    adopt_optimizer,
    make_model,
    refuse_stateful_layers,
    refuse_synchronized_normalization,
    refuse_what_would_be_ignored,
    set_clip_global_norm,
)


class Trainer:
    """Trains one model under one strategy.

    Args:
        model: A function that builds the model, called inside the strategy's scope; or a model made inside
            `strategy.scope()`. Compiled, or else `optimizer` and `loss` must be given here.
        strategy: Name of a strategy kind, what `make_strategy` returned, or any `tf.distribute.Strategy`.
        cluster: The cluster, for a kind given by name. Left out: discovered from the environment.
        optimizer: As in `keras.Model.compile`.
        loss: As in `keras.Model.compile`.
        metrics: As in `keras.Model.compile`.
        loss_weights: As in `keras.Model.compile`.
        weighted_metrics: As in `keras.Model.compile`.
        accumulate_steps: Micro-batches in one update. Each replica's part of the global batch is cut into
            this many, so that only one has to fit in memory at a time; the result is that of the whole batch.
        clip_global_norm: Scale the gradient of the global batch down to this norm where it is longer. Sets
            the optimizer's `global_clipnorm`.
        precision: Keras dtype policy to build the model with: `float32`, `mixed_bfloat16`, or
            `mixed_float16`, whose loss scale adapts itself and whose steps with infinite gradients all
            replicas skip together.
        learning_rate: A `tfdist.LearningRate`: the rate over the whole run, instead of the optimizer's own.
            It is scaled to the global batch and made as long as the run when `fit` knows both.
        synchronized_batch_norm: Make every BatchNormalization layer use the statistics of the global batch,
            which costs an exchange per layer. Without it each replica normalizes with its own part, and the
            moving statistics are averaged over replicas.
        steps_per_call: Updates to run in one graph call. Left out: chosen so that a call takes about a
            quarter of a second, or 1 where a callback must act between batches.
        seed: Seed of the order of rows. Left out: drawn by the chief. For the whole run to repeat, call
            `keras.utils.set_random_seed` as well, before the model is built.
        startup_timeout: Seconds to wait for the other tasks to start, for a kind given by name.

    Raises:
        ConfigError: If an argument is wrong or the model has a setting that cannot be honoured.
        ClusterError: If another task cannot be reached in time.

    Example:
        >>> import keras, numpy as np, tfdist
        >>> def build_model():
        ...     model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        ...     model.compile("sgd", "mse")
        ...     return model
        >>> trainer = tfdist.Trainer(build_model, "one_device", seed=1)
        >>> history = trainer.fit(np.ones((8, 4)), np.ones((8, 1)), epochs=2, global_batch_size=4, verbose=0)
        >>> len(history.history["loss"])
        2
    """

    def __init__(
        self,
        model: keras.Model | BuildModel,
        strategy: Any = "one_device",
        *,
        cluster: Cluster | None = None,
        optimizer: Any = None,
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        weighted_metrics: Any = None,
        accumulate_steps: int = 1,
        clip_global_norm: float | None = None,
        precision: str | None = None,
        synchronized_batch_norm: bool = False,
        learning_rate: LearningRate | None = None,
        steps_per_call: int | None = None,
        seed: int | None = None,
        startup_timeout: float = DEFAULT_STARTUP_TIMEOUT,
    ) -> None:
        require_positive("accumulate_steps", accumulate_steps)
        if steps_per_call is not None:
            require_positive("steps_per_call", steps_per_call)
        if isinstance(strategy, str):
            strategy = make_strategy(strategy, cluster, startup_timeout=startup_timeout)
        elif cluster is not None:
            raise ConfigError(
                "cluster was given together with a strategy that is made already"
                f" ({type(strategy).__name__}).",
                "pass the cluster to make_strategy instead",
            )
        elif startup_timeout != DEFAULT_STARTUP_TIMEOUT:
            raise ConfigError(
                f"startup_timeout={startup_timeout} was given together with a strategy that is made already"
                f" ({type(strategy).__name__}).",
                "pass startup_timeout to make_strategy instead",
            )
        self._engine = strategy if isinstance(strategy, Engine) else engine_for(strategy)
        self.strategy = self._engine.strategy
        given = {
            "optimizer": optimizer,
            "loss": loss,
            "metrics": metrics,
            "loss_weights": loss_weights,
            "weighted_metrics": weighted_metrics,
        }
        self.model = make_model(
            model,
            self.strategy,
            {name: value for name, value in given.items() if value is not None},
            precision=precision,
            synchronized_batch_norm=synchronized_batch_norm,
        )
        if accumulate_steps > 1 and keras_private.overrides(self.model, "train_step"):
            raise ConfigError(
                f"accumulate_steps={accumulate_steps} was given, but {type(self.model).__name__} has a"
                " train_step of its own, which cannot be cut into micro-batches.",
                "leave accumulate_steps out, or override compute_loss instead of train_step",
            )
        if accumulate_steps > 1 and not isinstance(self.strategy, tf.distribute.OneDeviceStrategy):
            refuse_synchronized_normalization(self.model, accumulate_steps)
        if self.num_replicas > 1:
            refuse_stateful_layers(self.model, self.num_replicas)
        self._clip_global_norm = clip_global_norm
        self._optimizer: Any = None
        self._epochs_done = 0
        self._passes: Passes | None = None
        self._settle()
        self._learning_rate = None
        if learning_rate is not None:
            self._learning_rate = PlannedLearningRate(learning_rate, self.model, self.strategy)
        self._engine.attach(self.model, int(accumulate_steps))
        self._steps_per_call = steps_per_call
        if self.model.steps_per_execution > 1:
            if steps_per_call not in (None, self.model.steps_per_execution):
                raise ConfigError(
                    f"steps_per_call={steps_per_call} was given, but the model was compiled with"
                    f" steps_per_execution={self.model.steps_per_execution}, which means the same.",
                    "leave one of the two out",
                )
            self._steps_per_call = self.model.steps_per_execution
        self._seed = int(self._engine.agree(secrets.randbits(31) if seed is None else checked_seed(seed)))

    @property
    def position(self) -> Position:
        """Where in its data the run of `fit` stands, after the last step that is done.

        To be asked for in a callback between batches or epochs, or after `fit`; `fit(…, start_at=position)`
        goes on from there. `to_dict` gives it as what JSON can hold.

        Raises:
            ConfigError: Nothing was trained yet, or the data is of a kind that tells no position.
        """
        if self._passes is None:
            raise ConfigError("There is no position before the first fit.", "call fit first")
        return self._passes.position()

    @property
    def num_replicas(self) -> int:
        """Copies of the model that work on one global batch."""
        return self._engine.num_replicas

    @property
    def is_chief(self) -> bool:
        """Whether this task is the one that writes files and shows progress."""
        return self._engine.is_chief

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        global_batch_size: int | None = None,
        epochs: int = 1,
        verbose: str | int = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        initial_epoch: int = 0,
        start_at: Position | Mapping[str, Any] | None = None,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int | Sequence[int] = 1,
    ) -> keras.callbacks.History:
        """Trains the model. Arguments mean what they mean in `keras.Model.fit`, unless said otherwise here.

        Inputs are global: every task passes the same data, and tfdist gives each replica its part.

        Args:
            x: Arrays; a `tf.data.Dataset` or `keras.utils.PyDataset` of global batches; a generator or
                another iterable of them, such as a `grain` loader; what a reader of `tfdist.data.readers`
                gives; or a function of a `tfdist.DataContext` that makes the pipeline of one task.
            y: Labels, for arrays.
            sample_weight: Weights of the rows, for arrays.
            global_batch_size: Rows in one update over all replicas and micro-batches, for data that has no
                batches of its own: arrays, readers and functions; 32 when left out.
            epochs: Epochs in all: the number of the last one plus one, as Keras counts from 0.
            verbose: 0, 1 (progress bar), 2 (a line per epoch), or "auto": a bar on a terminal or in a
                notebook, else lines. Only the chief shows anything.
            callbacks: Keras callbacks. They run in every task; those of Keras that write files run on the
                chief only.
            validation_split: Part of the arrays, taken from their end, to validate on.
            validation_data: `(x, y)`, `(x, y, sample_weight)`, or anything else that `x` may be.
            shuffle: Whether to shuffle arrays, rows of files, and the batches of a `PyDataset`, anew in each
                epoch.
            class_weight: Weight of each class in the loss.
            initial_epoch: Number of the first epoch.
            start_at: Where to go on in the data: a `position` of this or another `Trainer`, on any number of
                replicas. The weights are those of the model; the logs of that epoch are those of its rest.
            steps_per_epoch: Updates in an epoch. Passes through the data then follow one another across
                epochs.
            validation_steps: Batches to validate on.
            validation_batch_size: Rows in a batch of validation; that of training when left out.
            validation_freq: Validate after every so many epochs, or after the epochs listed (counted from 1).

        Returns:
            The history; `history.model` is the trained model.

        Raises:
            ConfigError: If arguments do not go together or the data is empty.
            TrainingError: If training cannot go on.
        """
        self._settle()
        require_positive("epochs", epochs)
        if not isinstance(shuffle, bool):
            raise ConfigError(f"shuffle must be True or False; received {shuffle!r}.", "pass shuffle=True")
        require_positive_if_given(
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_batch_size=validation_batch_size,
        )
        if not is_whole(initial_epoch, 0):
            raise ConfigError(
                f"initial_epoch must be a whole number of at least 0; received {initial_epoch!r}.",
                "for example initial_epoch=0",
            )
        if validation_split:
            if validation_data is not None:
                raise ConfigError(
                    "validation_split and validation_data were both given.", "leave one of them out"
                )
            (x, y, sample_weight), validation_data = split_arrays(x, y, sample_weight, validation_split)
        start = checked_start(start_at, initial_epoch, epochs, steps_per_epoch)
        if start is not None:
            initial_epoch, self._seed = start.epoch, start.seed
        source = self._source(x, y, sample_weight, global_batch_size, shuffle, class_weight)
        require_labels(self.model, source)
        self._require_end(
            source,
            "The dataset repeats for ever, so an epoch of it has no end.",
            steps_per_epoch=steps_per_epoch,
        )
        validate = None
        if validation_data is not None:
            validation = self._validation_source(
                validation_data, global_batch_size if validation_batch_size is None else validation_batch_size
            )
            require_labels(self.model, validation)
            self._require_end(
                validation, "The validation dataset repeats for ever.", validation_steps=validation_steps
            )
        else:
            refuse_without_validation(validation_steps, validation_batch_size, validation_freq)
        list_of_callbacks = make_callback_list(
            callbacks,
            self.model,
            engine=self._engine,
            verbose=verbose,
            epochs=epochs,
            steps=steps_per_epoch or source.batches,
            history=True,
        )
        if validation_data is not None:

            def validate() -> dict[str, Any]:
                return run_evaluation(self._engine, validation, validation_steps, list_of_callbacks)

        # Fits that follow one another without initial_epoch go on with new orders, as Keras's do.
        first_pass = initial_epoch or self._epochs_done
        if start is not None:
            first_pass = start.reading + start.is_between_epochs
        self._epochs_done = first_pass + max(0, epochs - initial_epoch)
        due = validates_after(validation_freq)
        plan = EpochPlan(epochs, initial_epoch, steps_per_epoch, first_pass, validate, due, start)
        if self._learning_rate is not None:
            self._learning_rate.begin(source, plan, list_of_callbacks.callbacks)
        self._passes = Passes(
            self._engine, source, first_pass - initial_epoch, steps_per_epoch is None, self._seed, start
        )
        with naming_faults(x, validation_data):
            run_epochs(self._engine, source, plan, list_of_callbacks, self._steps_per_call, self._passes)
        if self._learning_rate is not None:
            self._learning_rate.end()
        return self.model.history

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        *,
        global_batch_size: int | None = None,
        steps: int | None = None,
        verbose: str | int = "auto",
        callbacks: Any = None,
    ) -> dict[str, Any]:
        """Computes loss and metrics, each row counted once. Arguments are those of `fit`.

        Returns:
            Loss and metrics by name, the same in every task.
        """
        require_positive_if_given(steps=steps)
        if y is None and sample_weight is None:
            x, y, sample_weight = unpack_data(x)
        source = self._source(x, y, sample_weight, global_batch_size)
        self._require_end(source, "The dataset repeats for ever.", steps=steps)
        self._settle()
        list_of_callbacks = make_callback_list(
            callbacks,
            self.model,
            engine=self._engine,
            verbose=verbose,
            epochs=1,
            steps=steps or source.batches,
            history=False,
        )
        with naming_faults(x):
            return run_evaluation(self._engine, source, steps, list_of_callbacks)

    def predict(self, x: Any, *, global_batch_size: int | None = None, steps: int | None = None) -> Any:
        """Computes the model's outputs for every row. There are no callbacks.

        Returns:
            Arrays in the order of the rows, in the structure of the model's output, the same in every task.
        """
        require_positive_if_given(steps=steps)
        source = self._source(x, batch_size=global_batch_size)
        self._require_end(source, "The dataset repeats for ever.", steps=steps)
        with naming_faults(x):
            return self._engine.predict(source, steps)

    def _settle(self) -> None:
        """Checks and sets up the model's optimizer, again if the model was compiled again."""
        if self._optimizer is self.model.optimizer:
            return
        refuse_what_would_be_ignored(self.model)
        adopt_optimizer(self.model, self.strategy)
        if self._clip_global_norm is not None:
            set_clip_global_norm(self.model, self._clip_global_norm)
        self._optimizer = self.model.optimizer

    def _require_end(self, source: Source, problem: str, **limit: int | None) -> None:
        """Refuses data that has no end, in any task, where the argument that limits it is not given."""
        ((name, steps),) = limit.items()
        if steps is None and self._engine.any_task(source.endless):
            raise ConfigError(problem, f"pass {name}")

    def _source(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        class_weight: Mapping[int, float] | None = None,
    ) -> Source:
        return make_source(
            x,
            y,
            sample_weight,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=self._seed,
            class_weight=class_weight,
            context=self._engine.data_context(),
            replicas=self._engine.replicas,
        )

    def _validation_source(self, validation_data: Any, batch_size: int | None) -> Source:
        x, y, sample_weight = unpack_data(validation_data)
        return self._source(x, y, sample_weight, size_for(x, batch_size))
