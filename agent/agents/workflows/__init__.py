"""Workflows: agents in an order that a program fixes."""
