"""Tools for tests of agents. They are public as `sandbur.testing`."""
