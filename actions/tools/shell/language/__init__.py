"""The shell language: words, scripts, and tables of programs."""
