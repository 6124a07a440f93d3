"""What the nine actions share: model calls, decisions, calls of tools and their recovery."""
