"""The durable, append-only store of sessions."""
