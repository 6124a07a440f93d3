"""Files that a message names with an at sign."""
