"""One loop for every engine."""
