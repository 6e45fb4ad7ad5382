"""Tasks: the loss of a batch, and how a model is scored."""
