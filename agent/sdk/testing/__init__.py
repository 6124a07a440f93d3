"""Tools for tests of agents; public as `sandbur.testing`."""
