"""Streams of server-sent events: stored events with ids, live ones between them."""
