"""The entries, numbered as in the paper, by name."""
