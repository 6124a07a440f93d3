"""Sends requests to a model server and reads its events."""
