"""What goes around the model calls and the tool calls of a session."""
