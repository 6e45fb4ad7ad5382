"""Server optimizers: how the server steps towards what was combined."""
