"""Optimizers: how a local gradient becomes a step on the flat vector."""
