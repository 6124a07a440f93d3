"""Parts that the nine actions share: model calls, decisions, tool calls and their recovery."""
