"""Tools that reach out over the network: requests, pages, searches; and the guard that they all pass."""
