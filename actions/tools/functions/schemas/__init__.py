"""Builds the schemas of the arguments of functions, and checks arguments against them."""
