"""Schemas of the arguments of functions, and checks against them."""
