"""The rounds of a federation: the loop, its record, the clients' memories, simulated faults."""
