"""Events on a terminal: streams, lines, markdown."""
