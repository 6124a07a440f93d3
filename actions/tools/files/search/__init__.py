"""Searches files, with ripgrep if it is installed."""
