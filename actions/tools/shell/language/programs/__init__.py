"""Tables of programs that only read: their options, and which of their arguments are files."""
