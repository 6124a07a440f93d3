"""Prompts and resources of servers, and what programs use of servers."""
