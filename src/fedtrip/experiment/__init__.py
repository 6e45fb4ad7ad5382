"""An experiment: its description, its defaults, and the federation that is made of it."""
