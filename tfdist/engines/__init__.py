"""Where steps run. An engine builds the model, turns data into its own iterator, runs n steps, evaluates and
predicts.
"""
