"""Puts an agent together: its settings, its parts, and the sessions made of them."""
