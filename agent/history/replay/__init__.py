"""Walks a recorded run through today's graph."""
