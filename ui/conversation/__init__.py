"""A conversation with a program, in lines of JSON."""
