"""One optimizer update on one replica: losses, gradients, optimizer, metrics and the other state of a model."""
