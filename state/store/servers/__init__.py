"""Stores on a database server."""
