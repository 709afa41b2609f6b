"""Small models and data that the configs and notebooks use."""
