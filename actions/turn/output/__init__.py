"""Structured output: the format that answers must have, and its validation."""
