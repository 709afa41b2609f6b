"""Makes the model inside the strategy's scope and refuses what would train wrongly."""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import ConfigError
from tfdist.step import keras_private
from tfdist.step.distributed_optimizer import GlobalGradients

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")

BuildModel = Callable[[], keras.Model]


def make_model(
    model: keras.Model | BuildModel,
    strategy: tf.distribute.Strategy,
    compile_arguments: Mapping[str, Any],
    *,
    precision: str | None = None,
    synchronized_batch_norm: bool = False,
) -> keras.Model:
    """Gives a compiled model whose variables belong to the strategy.

    Args:
        model: A function that builds a model, compiled or not; or a model made inside `strategy.scope()`.
        strategy: The strategy.
        compile_arguments: Arguments for `compile`, without those that are None; empty to leave the model as
            it is.

    Raises:
        ConfigError: If the model is not compiled, was made elsewhere, or has a setting that cannot be
            honoured.
    """
    with strategy.scope():
        if isinstance(model, keras.Model):
            made = model
            _require_scope(made, strategy)
            if precision is not None:
                raise ConfigError(
                    f"precision={precision!r} was given together with a model that is built already.",
                    "pass the function that builds the model instead",
                )
        else:
            with _dtype_policy(precision):
                made = _call(model)
        if not isinstance(synchronized_batch_norm, bool):
            raise ConfigError(
                f"synchronized_batch_norm must be True or False; received {synchronized_batch_norm!r}.",
                "for example synchronized_batch_norm=True",
            )
        if synchronized_batch_norm:
            _synchronize_batch_norm(made)
        if compile_arguments:
            if keras_private.is_compiled(made) and not {"optimizer", "loss"} <= set(compile_arguments):
                raise ConfigError(
                    f"The model is compiled already, and {', '.join(sorted(compile_arguments))} would replace"
                    " only a part of it.",
                    "leave these arguments out, or have the function return a model that is not compiled",
                )
            _compile(made, compile_arguments)
    if not keras_private.is_compiled(made):
        raise ConfigError(
            f"Model {made.name!r} is not compiled, so there is nothing to train it with.",
            "call model.compile(optimizer=…, loss=…) where it is built, or pass optimizer= and loss= here",
        )
    return made


def _call(build_model: Any) -> keras.Model:
    if not callable(build_model):
        raise ConfigError(
            "The first argument must be a keras.Model or a function that builds one; received"
            f" {build_model!r}.",
            "pass the function itself, without calling it: tfdist.fit(build_model, …)",
        )
    made = build_model()
    if not isinstance(made, keras.Model):
        raise ConfigError(
            f"{getattr(build_model, '__name__', build_model)!s}() must return a keras.Model; it returned"
            f" {made!r}.",
            "end the function with `return model`",
        )
    return made


@contextlib.contextmanager
def _dtype_policy(name: str | None) -> Iterator[None]:
    """Makes a dtype policy the one that new layers get, for as long as the context is open."""
    if name is None:
        yield
        return
    if name not in PRECISIONS:
        raise ConfigError(
            f"precision must be one of {', '.join(PRECISIONS)}; received {name!r}.",
            "for example mixed_bfloat16",
        )
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _synchronize_batch_norm(model: keras.Model) -> None:
    layers = [
        layer
        for layer in keras_private.flat_layers(model)
        if isinstance(layer, keras.layers.BatchNormalization)
    ]
    if not layers:
        raise ConfigError(
            f"synchronized_batch_norm was asked for, but model {model.name!r} has no BatchNormalization layer"
            " (or is not built yet, so that its layers are not known).",
            "leave it out, or build the layers in the model's constructor",
        )
    for layer in layers:
        layer.synchronized = True


def _compile(model: keras.Model, arguments: Mapping[str, Any]) -> None:
    arguments = dict(arguments)
    optimizer = arguments.get("optimizer")
    if isinstance(optimizer, keras.optimizers.Optimizer) and not optimizer.built:
        # Keras remembers the strategy in whose scope an optimizer was made; this one was made outside.
        arguments["optimizer"] = keras_private.made_again(optimizer)
    try:
        for loss in keras.tree.flatten(arguments.get("loss")):
            keras.losses.get(loss)
        for metric in keras.tree.flatten([arguments.get("metrics"), arguments.get("weighted_metrics")]):
            if metric not in ("accuracy", "acc", "crossentropy", "ce"):  # Keras picks these by the loss
                keras.metrics.get(metric)
        model.compile(**arguments)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"Keras cannot compile the model with {dict(arguments)!r}: {error}",
            "correct the argument named above; names are those of keras.optimizers, keras.losses and"
            " keras.metrics",
        ) from error


def adopt_optimizer(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Makes an optimizer that was made outside of the strategy's scope again inside, as long as it is new.

    A model that is compiled again is rarely compiled in the scope of its strategy.
    """
    optimizer = model.optimizer
    if optimizer is None or optimizer.built or keras_private.strategy_of(optimizer) is strategy:
        return
    with strategy.scope():
        model.optimizer = keras_private.made_again(optimizer)


def _require_scope(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    home = keras_private.strategy_of(model)
    if home is strategy or (home is None and isinstance(strategy, tf.distribute.OneDeviceStrategy)):
        return
    where = (
        "outside any strategy's scope" if home is None else f"in the scope of another {type(home).__name__}"
    )
    raise ConfigError(
        f"Model {model.name!r} was made {where}, so its variables do not belong to this"
        f" {type(strategy).__name__}.",
        "pass the function that builds the model instead of the model, or build it inside `with"
        " strategy.scope():`",
    )


def refuse_what_would_be_ignored(model: keras.Model) -> None:
    """Refuses methods and settings of a model that the steps would pass over.

    Raises:
        ConfigError: It has one.
    """
    for method in ("make_train_function", "make_test_function", "make_predict_function"):
        if keras_private.overrides(model, method):
            raise ConfigError(
                f"{type(model).__name__} has a {method} of its own, which tfdist would not call.",
                "override train_step, test_step or predict_step, or write a custom loop with"
                " tfdist.make_strategy",
            )
    for held in keras_private.optimizers_of(model):
        if isinstance(held, GlobalGradients):
            raise ConfigError(
                f"The model's {type(held).__name__} is a DistributedOptimizer, whose work tfdist.fit"
                " does itself.",
                "pass the plain optimizer to tfdist.fit, or keep the DistributedOptimizer and call model.fit",
            )
    optimizer: Any = None
    if model.optimizer is not None:
        optimizer = keras_private.innermost_optimizer(model.optimizer)
    if getattr(optimizer, "gradient_accumulation_steps", None):
        raise ConfigError(
            f"The optimizer has gradient_accumulation_steps={optimizer.gradient_accumulation_steps}, which"
            " fails under every strategy and counts micro-batches as updates.",
            f"leave it out and pass accumulate_steps={optimizer.gradient_accumulation_steps} to tfdist",
        )


def set_clip_global_norm(model: keras.Model, norm: float) -> None:
    """Makes the model's optimizer clip the gradient of the global batch to a norm."""
    if isinstance(norm, bool) or not isinstance(norm, numbers.Real) or not 0 < norm < math.inf:
        raise ConfigError(
            f"clip_global_norm must be a positive number; received {norm!r}.",
            "for example clip_global_norm=1.0",
        )
    optimizers = keras_private.optimizers_of(model)
    if [id(held) for held in optimizers] != [id(model.optimizer)]:
        raise ConfigError(
            f"clip_global_norm={norm} acts on the optimizer given to compile, but {type(model).__name__} has"
            f" {len(optimizers)} optimizers of its own.",
            "make each of them with global_clipnorm, as in keras.optimizers.SGD(0.1, global_clipnorm=1.0)",
        )
    optimizer = keras_private.innermost_optimizer(model.optimizer)
    for other in ("clipnorm", "clipvalue", "global_clipnorm"):
        if getattr(optimizer, other, None) is not None:
            raise ConfigError(
                f"clip_global_norm={norm} was given, but the optimizer clips already:"
                f" {other}={getattr(optimizer, other)}.",
                "leave one of the two out",
            )
    optimizer.global_clipnorm = float(norm)


def refuse_synchronized_normalization(model: keras.Model, accumulate_steps: int) -> None:
    """Refuses layers that exchange statistics inside the loop over micro-batches."""
    for layer in keras_private.flat_layers(model):
        if getattr(layer, "synchronized", False):
            raise ConfigError(
                f"Layer {layer.name!r} synchronizes its statistics over replicas in each forward pass, which"
                f" cannot be done inside the loop over accumulate_steps={accumulate_steps} micro-batches.",
                "set synchronized=False, or leave accumulate_steps out",
            )


def refuse_stateful_layers(model: keras.Model, replicas: int) -> None:
    """Refuses layers that remember each row of a batch."""
    for layer in keras_private.flat_layers(model):
        if getattr(layer, "stateful", False) is True:
            raise ConfigError(
                f"Layer {layer.name!r} is stateful: it remembers each row of a batch until the next one, and"
                f" the rows are divided over {replicas} replicas.",
                "set stateful=False, or use strategy='one_device'",
            )
