"""Combining: how the clients' vectors become one."""
