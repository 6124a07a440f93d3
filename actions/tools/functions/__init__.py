"""A person's functions as tools."""
