"""A run and the folder it leaves: writer, checkpoint, history, result."""
