"""Sandboxes for commands: what they may write and read, and which hosts they may reach."""
