"""Keeps watch over one command: a process of its own, which imports the standard library alone."""
