"""Confines commands: what they may write and see, and whom they may talk to."""
