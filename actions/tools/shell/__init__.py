"""Analyses shell commands, runs them under a supervisor, and recovers them after a crash."""
