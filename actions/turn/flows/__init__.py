"""Handles a message before a model is asked: triggers, flows and their answers."""
