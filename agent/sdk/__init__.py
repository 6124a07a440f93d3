"""Sandbur in programs of one's own."""
