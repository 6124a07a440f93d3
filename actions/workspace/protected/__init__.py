"""Files that hold secrets and files that decide what other programs run."""
