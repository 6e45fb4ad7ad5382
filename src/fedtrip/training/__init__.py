"""One client's training on its flat vector, and what it costs."""
