"""The public functions: `fedtrip.run`, `load`, `load_result`, `evaluate` and `compare`."""
