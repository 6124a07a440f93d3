"""Sandboxes for commands, which limit the files they write and read, and the hosts they reach."""
