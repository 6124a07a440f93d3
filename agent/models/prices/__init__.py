"""The cost of model calls."""
