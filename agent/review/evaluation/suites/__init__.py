"""Suites of tasks: from folders, from programs, and shipped."""
