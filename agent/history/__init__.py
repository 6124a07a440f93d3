"""Reads recorded runs: replay, time travel, reports."""
