"""The command line: its grammar, its flags, and the function that runs a command."""
