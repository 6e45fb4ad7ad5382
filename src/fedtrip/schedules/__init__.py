"""Schedules: the local learning rate of each round."""
