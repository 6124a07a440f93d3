"""Conversations with a program, in lines of JSON."""
