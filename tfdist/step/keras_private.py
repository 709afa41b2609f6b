"""Where tfdist touches Keras internals (`keras_optimizer_private.py` has those of optimizers). Tested with
Keras 3.15.

Each function says what it reaches for, so that a Keras release that moves it fails here, by name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras.src import backend as keras_backend
from keras.src.backend.common import global_state
from keras.src.losses.loss import reduce_weighted_values
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR, global_seed_generator

from tfdist.errors import TrainingError

TESTED_KERAS = "3.15"


def _missing(what: str) -> TrainingError:
    return TrainingError(
        f"Keras {keras.__version__} has no {what}, which tfdist relies on; tested with Keras {TESTED_KERAS}.",
        f"pip install 'keras=={TESTED_KERAS}.*'",
    )


def _private(owner: Any, name: str) -> Any:
    """Gives a private attribute, or says by name that Keras has it no more."""
    try:
        return getattr(owner, name)
    except AttributeError:
        raise _missing(f"{type(owner).__name__}.{name}") from None


def build_everything(model: keras.Model, spec: tuple[Any, ...]) -> None:
    """Creates every variable of the model, its optimizer, losses and metrics from the shapes of a batch."""
    build = _private(model, "_symbolic_build")
    if overrides(model, "train_step") and not can_be_called(model):
        return  # made of other models, such as a generator and a discriminator, that its train_step calls
    build(data_batch=_with_open_rows(spec))


def can_be_called(model: keras.Model) -> bool:
    """Tells whether the model maps inputs to outputs, and is not just made of models that its steps call."""
    return type(model).call is not keras.Model.call or isinstance(model, keras.Sequential)


def build_layers(model: keras.Model, x: Any) -> None:
    """Creates the weights of the model from the shapes of its input."""
    if can_be_called(model) and not all(layer.built for layer in flat_layers(model)):
        keras_backend.compute_output_spec(model, _with_open_rows(x), training=False)


def _with_open_rows(spec: Any) -> Any:
    return keras.tree.map_structure(
        lambda tensor: keras.KerasTensor(
            (None, *tensor.shape[1:]), keras.backend.standardize_dtype(tensor.dtype)
        ),
        spec,
    )


def compiled_loss(model: keras.Model) -> Any:
    """Gives the object that holds the losses given to `compile`, or None."""
    return _private(model, "_compile_loss")


def compiled_metrics(model: keras.Model) -> Any:
    """Gives the object that holds the metrics given to `compile`, or None."""
    return _private(model, "_compile_metrics")


def loss_tracker(model: keras.Model) -> keras.metrics.Mean:
    """Gives the metric that Keras shows as `loss`."""
    return _private(model, "_loss_tracker")


def is_compiled(model: keras.Model) -> bool:
    """Tells whether `compile` was called."""
    return bool(getattr(model, "compiled", False))


def strategy_of(made: keras.Model | keras.optimizers.Optimizer) -> Any:
    """Gives the strategy in whose scope a model was made, or None; TensorFlow's default for an optimizer."""
    is_optimizer = isinstance(made, keras.optimizers.Optimizer)
    return _private(made, "_distribution_strategy" if is_optimizer else "_distribute_strategy")


def call_model(model: keras.Model, x: Any, training: bool) -> Any:
    """Calls the model, with `training` where its `call` takes it."""
    if _private(model, "_call_has_training_arg"):
        return model(x, training=training)
    return model(x)


def compute_loss(model: keras.Model, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool) -> Any:
    """Calls the model's `compute_loss`, also where an override does not take `training`."""
    if _private(model, "_compute_loss_has_training_arg"):
        return model.compute_loss(x, y, y_pred, sample_weight, training=training)
    return model.compute_loss(x, y, y_pred, sample_weight)


@contextlib.contextmanager
def replaced_losses(model: keras.Model, wrap: Callable[[Any], Any]) -> Iterator[None]:
    """Wraps each compiled loss for as long as the context is open.

    Also stops Keras from dividing regularization and `add_loss` values by the number of replicas: tfdist
    weighs them with everything else.
    """
    holder = compiled_loss(model)
    try:
        original = None if holder is None else holder._flat_losses
        if original is not None:
            holder._flat_losses = [entry._replace(loss=wrap(entry.loss)) for entry in original]
    except AttributeError:
        raise _missing("CompileLoss._flat_losses") from None
    try:
        with attribute_replaced(model, "_aggregate_additional_loss", keras.ops.sum):
            yield
    finally:
        if original is not None:
            holder._flat_losses = original


def unreduced_loss(loss: keras.losses.Loss, y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Computes a loss as `Loss.__call__` does, up to the point where it is reduced.

    Returns:
        The weighted and masked values, and the mask (or None): that of the predictions and that of the loss
        itself (`ignore_class`) combined.
    """
    masks = [keras_backend.get_keras_mask(y_pred)]
    y_pred = keras.tree.map_structure(
        lambda tensor: keras.ops.convert_to_tensor(tensor, dtype=loss.dtype), y_pred
    )
    y_true = keras.tree.map_structure(
        lambda tensor: keras.ops.convert_to_tensor(tensor, dtype=loss.dtype), y_true
    )
    values = loss.call(y_true, y_pred)
    masks.append(keras_backend.get_keras_mask(values))
    mask = None
    for given in masks:
        if given is not None:
            mask = given if mask is None else mask & given
    weighted = reduce_weighted_values(
        values, sample_weight=sample_weight, mask=mask, reduction="none", dtype=loss.dtype
    )
    return weighted, mask


@contextlib.contextmanager
def without_gradient_reduction(optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Stops the optimizer from summing gradients over replicas: they arrive summed, so clipping sees the
    whole.
    """
    inner = innermost_optimizer(optimizer)
    if not hasattr(inner, "_all_reduce_sum_gradients"):
        raise _missing("Optimizer._all_reduce_sum_gradients")
    with attribute_replaced(inner, "_all_reduce_sum_gradients", list):
        yield


@contextlib.contextmanager
def without_ema_overwrite(optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Stops the optimizer from overwriting weights with their averages; see `ema_overwrite_frequency`."""
    inner = innermost_optimizer(optimizer)
    inner.ema_overwrite_frequency, before = None, inner.ema_overwrite_frequency
    try:
        object.__setattr__(inner, "tfdist_ema_overwrite_frequency", before)
        yield
    finally:
        object.__delattr__(inner, "tfdist_ema_overwrite_frequency")
        inner.ema_overwrite_frequency = before


def ema_overwrite_frequency(optimizer: keras.optimizers.Optimizer) -> int | None:
    """Gives after how many updates weights are to be overwritten, inside `without_ema_overwrite`."""
    inner = innermost_optimizer(optimizer)
    return getattr(inner, "tfdist_ema_overwrite_frequency", None) if inner.use_ema else None


def weights_updated_by(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Gives the weights that an optimizer was built for."""
    return list(_private(optimizer, "_trainable_variables"))


def moving_averages(optimizer: keras.optimizers.Optimizer) -> list[tuple[keras.Variable, keras.Variable]]:
    """Gives each weight with its moving average."""
    try:
        averages = optimizer._model_variables_moving_average
    except AttributeError:
        raise _missing("Optimizer._model_variables_moving_average") from None
    return list(zip(weights_updated_by(optimizer), averages, strict=True))


@contextlib.contextmanager
def atomic_iterations(optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Makes the optimizer count its updates with one operation on the variable's own task.

    Keras reads, adds and assigns, which loses counts where several workers update one variable at a time.
    """
    iterations = innermost_optimizer(optimizer).iterations
    native = iterations.value

    def assign_add(value: Any) -> None:
        native.assign_add(keras.ops.cast(value, iterations.dtype))

    with attribute_replaced(iterations, "assign_add", assign_add):
        yield


@contextlib.contextmanager
def attribute_replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Gives an object another method while the context is open, past Keras's tracking of attributes."""
    if not hasattr(owner, name):
        raise _missing(f"{type(owner).__name__}.{name}")
    own = vars(owner)
    was_own, before = name in own, own.get(name)
    object.__setattr__(owner, name, value)
    try:
        yield
    finally:
        if was_own:
            object.__setattr__(owner, name, before)
        else:
            object.__delattr__(owner, name)


@contextlib.contextmanager
def outside_stateless_scope() -> Iterator[None]:
    """Lets assignments through for a while inside a stateless scope."""
    scope = global_state.get_global_attribute("stateless_scope")
    global_state.set_global_attribute("stateless_scope", None)
    try:
        yield
    finally:
        global_state.set_global_attribute("stateless_scope", scope)


def flat_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """Gives the model and every layer inside it."""
    return list(_private(model, "_flatten_layers")())


def optimizers_of(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Gives every optimizer that the model or a layer of it holds, in attributes, lists and dicts."""
    held = [vars(layer) for layer in flat_layers(model)] + [model.optimizer]
    found: dict[int, keras.optimizers.Optimizer] = {}
    seen: set[int] = set()
    while held:
        item = held.pop()
        if isinstance(item, keras.optimizers.Optimizer):
            found.setdefault(id(item), item)
        elif isinstance(item, dict | list | tuple | set) and id(item) not in seen:
            seen.add(id(item))
            held.extend(item.values() if isinstance(item, dict) else item)
    return list(reversed(found.values()))


def means_of(model: keras.Model) -> list[keras.metrics.Mean]:
    """Gives the metrics of the model that average whatever they are given."""
    return [metric for metric in flat_metrics(model) if type(metric) is keras.metrics.Mean]


def function_metrics_of(model: keras.Model) -> list[keras.metrics.MeanMetricWrapper]:
    """Gives the metrics that average a function of the user's own."""
    return [
        metric
        for metric in flat_metrics(model)
        if isinstance(metric, keras.metrics.MeanMetricWrapper)
        and not getattr(_private(metric, "_fn"), "__module__", "").startswith("keras.")
    ]


def function_value(metric: keras.metrics.MeanMetricWrapper, y_true: Any, y_pred: Any) -> Any:
    """Gives what the function of such a metric gives."""
    return _private(metric, "_fn")(y_true, y_pred, **_private(metric, "_fn_kwargs"))


def flat_metrics(model: keras.Model) -> list[keras.metrics.Metric]:
    """Gives every metric of the model, with those inside others."""
    pending, found = list(model.metrics), []
    while pending:
        metric = pending.pop()
        found.append(metric)
        pending.extend(getattr(metric, "metrics", None) or [])
    return found


def made_again(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Makes an optimizer like one that was not used yet, in the current strategy's scope."""
    again = type(optimizer).from_config(optimizer.get_config())
    for name, value in vars(optimizer).items():  # what was set later, such as weights without decay
        if isinstance(value, bool | int | float | str | set | frozenset | tuple | re.Pattern):
            object.__setattr__(again, name, value)
    return again


def has_settable_learning_rate(optimizer: keras.optimizers.Optimizer) -> bool:
    """Tells whether the learning rate is a variable, not a schedule."""
    return isinstance(_private(innermost_optimizer(optimizer), "_learning_rate"), keras.Variable)


def innermost_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Gives the optimizer inside loss scaling, or the optimizer itself."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return optimizer


def global_seed() -> keras.random.SeedGenerator:
    """Gives the generator that `keras.random` functions use when called without a seed, creating it if need
    be.
    """
    return global_seed_generator()


def seed_states(model: keras.Model, shared_seed: keras.random.SeedGenerator) -> list[keras.Variable]:
    """Gives the state of each random generator that the model's layers draw from, and of the global one.

    Args:
        model: The model.
        shared_seed: What `global_seed` gave. Keras keeps it per thread, and TensorFlow runs replicas in
            threads, so it becomes the calling thread's too.
    """
    global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, shared_seed)
    try:
        states = [generator.state for layer in flat_layers(model) for generator in layer._seed_generators]
    except AttributeError:
        raise _missing("Layer._seed_generators") from None
    states.append(shared_seed.state)
    return list({id(state): state for state in states}.values())


class CapturingScope(keras.StatelessScope):
    """A stateless scope that also remembers which variables were assigned inside it.

    Inside it no variable changes: reads see what was assigned before in the scope.
    """

    def __init__(self, state_mapping: list[tuple[keras.Variable, Any]]) -> None:
        super().__init__(state_mapping, collect_losses=True, initialize_variables=False)
        self.assigned: dict[int, keras.Variable] = {}

    def add_update(self, update: tuple[keras.Variable, Any]) -> None:
        """Records one assignment; a trained weight is assigned at once, since gradients are taken at its
        value.
        """
        variable, value = update
        if variable.trainable and id(variable) not in self.state_mapping:
            with outside_stateless_scope():
                variable.assign(value)
            return
        super().add_update(update)
        self.assigned[id(variable)] = variable

    def get_current_value(self, variable: keras.Variable) -> Any:
        """Gives what a variable holds in the scope; its own value where nothing was assigned.

        Keras asks the scope for the weights it regularizes, and expects it to know them all.
        """
        value = super().get_current_value(variable)
        return variable._value if value is None else value


def overrides(model: keras.Model, method: str) -> bool:
    """Tells whether the model's class has its own `method` instead of the one of `keras.Model`."""
    return getattr(type(model), method) is not getattr(keras.Model, method) and not (
        type(model).__module__.startswith("keras.src.")
    )
