"""The states of other Burr applications in a store."""
