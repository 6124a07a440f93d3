"""Copies of a workspace: made for a trial, compared with the original, and removed."""
