"""Configuration files that are right, for the tests to change."""

WHOLE = """\
strategy: {kind: multi_worker_mirrored, communication: ring}
cluster: {local: {workers: 2}}
model: {build: "my_model:build_model", args: {hidden: 128}}
data: {build: "my_model:load"}
train:
  global_batch_size: 64
  epochs: 10
  optimizer: {name: adamw, learning_rate: 1e-3}
  loss: {digit: mse, other: mae}
  loss_weights: {digit: 2}
  metrics: [accuracy]
  accumulate_steps: 2
  clip_global_norm: 1
  seed: 7
  verbose: 2
launch: {startup_timeout: 5}
"""

SMALL = """\
model: {build: "my_model:build_model"}
data: {build: "my_model:load"}
"""
