"""The same task and model on other simulators: `make race`."""
