"""Masks the secrets in the text that enters a session."""
