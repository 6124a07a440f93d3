"""Searches files, with ripgrep where it is installed."""
