"""The shell language: words, scripts, and the programs that commands name."""
