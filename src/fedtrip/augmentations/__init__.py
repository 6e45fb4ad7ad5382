"""Augmentations: how the inputs of a training batch are changed at random."""
