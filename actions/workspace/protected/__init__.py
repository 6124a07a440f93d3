"""Lists of files that hold secrets, and of files that decide what other programs run."""
