"""Looks at recorded runs: replay, time travel, insight."""
