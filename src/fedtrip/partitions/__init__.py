"""Partitions: which training samples each client holds."""
