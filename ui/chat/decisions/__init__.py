"""Asks a person about calls and trust."""
