"""The command `sandbur index`."""
