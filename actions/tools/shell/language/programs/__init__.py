"""Tables of programs that only read: their options, and the arguments that are files."""
