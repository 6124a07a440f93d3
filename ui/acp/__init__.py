"""Sandbur in an editor: the Agent Client Protocol over standard input and output."""
