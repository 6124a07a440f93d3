"""One run of an agent: its arguments, instructions, events, pending calls and result."""
