"""Attacks: what faulty or hostile clients do."""
