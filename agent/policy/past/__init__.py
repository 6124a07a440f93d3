"""Evaluates rules against the calls of recorded sessions."""
