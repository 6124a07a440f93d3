"""Judges, runs and records tool calls, and prepares their results for the model."""
