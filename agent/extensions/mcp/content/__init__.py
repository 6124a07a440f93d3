"""Prompts and resources of tool servers, and the access of programs to servers."""
