"""Which tools a session has, and which of them the model is told of."""
