"""A run that a program controls, in lines of JSON."""
