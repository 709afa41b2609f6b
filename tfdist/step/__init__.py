"""One optimizer update on one replica: losses, gradients, optimizer, metrics and a model's other state."""
