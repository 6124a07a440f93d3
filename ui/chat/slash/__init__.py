"""Slash commands of the chat."""
