"""Files that a message names after an `@`."""
