"""Files that are wholly there or not there: atomic writes, locks, tensors with a checksum."""
