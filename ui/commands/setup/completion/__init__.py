"""Completion in shells: the scripts, and the candidates that they ask for."""
