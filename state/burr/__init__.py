"""A state persister for any Burr application."""
