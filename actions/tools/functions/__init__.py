"""Makes tools from the functions of a program."""
