"""The command `sandbur agents`."""
