"""The paper: its published numbers as data, and its tables computed again."""
