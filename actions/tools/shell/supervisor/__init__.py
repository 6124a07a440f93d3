"""Supervises one command, in a separate process that imports only the standard library."""
