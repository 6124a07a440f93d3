"""Agents that Markdown files describe: where the files are, how they are read, and what one says."""
