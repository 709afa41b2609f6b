"""Keras callbacks on top of the loop: which run where, and which must see every batch."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import keras

from tfdist.engines.engine import Engine
from tfdist.errors import ConfigError
from tfdist.step import keras_private

TRAIN_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
TEST_HOOKS = ("on_test_batch_begin", "on_test_batch_end")

# They write files, so one task is enough and two would collide.
CHIEF_ONLY = (
    keras.callbacks.CSVLogger,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.TensorBoard,
)


def make_callback_list(
    callbacks: Sequence[keras.callbacks.Callback] | keras.callbacks.Callback | None,
    model: keras.Model,
    *,
    engine: Engine,
    verbose: str | int,
    epochs: int,
    steps: int | None,
    history: bool,
) -> keras.callbacks.CallbackList:
    """Makes the list of callbacks of this task: the user's, the progress bar on the chief, and the history.

    Args:
        callbacks: The user's.
        model: The model they act on.
        engine: Tells which task this is.
        verbose: 0, 1 (progress bar), 2 (a line per epoch) or "auto".
        epochs: Epochs of the whole run.
        steps: Steps per epoch, if known.
        history: Whether to add a `History`.
    """
    given = keras.tree.flatten(callbacks) if callbacks is not None else []
    _check(given)
    kept = [callback for callback in given if engine.is_chief or not isinstance(callback, CHIEF_ONLY)]
    verbosity = resolve_verbose(verbose) if engine.is_chief else 0
    return keras.callbacks.CallbackList(
        kept,
        add_history=history,
        add_progbar=verbosity != 0,
        model=model,
        verbose=verbosity,
        epochs=epochs,
        steps=steps,
    )


def _check(callbacks: Sequence[Any]) -> None:
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise ConfigError(
                f"callbacks holds {callback!r}, which is not a keras.callbacks.Callback.",
                "make it a subclass, or wrap a function in keras.callbacks.LambdaCallback",
            )
        if isinstance(callback, keras.callbacks.BackupAndRestore):
            raise ConfigError(
                "BackupAndRestore cannot resume a run here: it restores one task only, and the epoch that it"
                " restores is known to Keras's own loop alone.",
                "use keras.callbacks.ModelCheckpoint, load its file where the model is built, and pass"
                " initial_epoch, or start_at for a file saved within an epoch",
            )


def share_learning_rate(model: keras.Model, engine: Engine) -> None:
    """Gives every task the chief's learning rate, which a callback may have changed there alone."""
    optimizer = model.optimizer
    if engine.num_tasks == 1 or optimizer is None or not keras_private.has_settable_learning_rate(optimizer):
        return
    rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
    optimizer.learning_rate = engine.agree(rate)


def resolve_verbose(verbose: str | int) -> int:
    """Reads `auto` as a progress bar where one can be drawn, and as a line per epoch where it would fill a
    log.
    """
    if verbose not in ("auto", 0, 1, 2):
        raise ConfigError(
            f"verbose must be 0, 1, 2 or 'auto'; received {verbose!r}.", "for example verbose=2"
        )
    if verbose != "auto":
        return int(verbose)
    return 1 if sys.stdout.isatty() or "ipykernel" in sys.modules else 2


def must_see_every_batch(callbacks: Sequence[keras.callbacks.Callback], hooks: Sequence[str]) -> bool:
    """Tells whether any callback acts between batches, so that steps cannot be run several at a time.

    Args:
        callbacks: The callbacks.
        hooks: The methods that are called between batches: `TRAIN_HOOKS` or `TEST_HOOKS`.
    """
    return any(_acts_between_batches(callback, hooks) for callback in callbacks)


def _acts_between_batches(callback: keras.callbacks.Callback, hooks: Sequence[str]) -> bool:
    # Keras's own callbacks that have the hooks but, as configured, do nothing in them that needs each batch.
    if type(callback) in (keras.callbacks.History, keras.callbacks.ProgbarLogger):
        return False
    if type(callback) is keras.callbacks.TensorBoard:
        return callback.update_freq != "epoch" or bool(callback.profile_batch)
    if type(callback) is keras.callbacks.ModelCheckpoint:
        return callback.save_freq != "epoch"
    return any(_is_overridden(callback, hook) for hook in hooks)


def _is_overridden(callback: Any, hook: str) -> bool:
    if hook in vars(callback):  # LambdaCallback sets its hooks on the instance
        return True
    return getattr(type(callback), hook) is not getattr(keras.callbacks.Callback, hook)


class ProgressDisplay:
    """Tells when the progress bar of a list of callbacks wants new numbers, which take time to compute."""

    SECONDS = 0.1

    def __init__(self, callbacks: keras.callbacks.CallbackList) -> None:
        self._shown = any(
            isinstance(callback, keras.callbacks.ProgbarLogger) and callback.verbose == 1
            for callback in callbacks.callbacks
        )
        self._last = -self.SECONDS

    def is_due(self) -> bool:
        """Tells whether to show numbers now."""
        if not self._shown or time.monotonic() - self._last < self.SECONDS:
            return False
        self._last = time.monotonic()
        return True
