"""Tools that use the network: requests, pages and searches, and the guard that checks every address."""
