"""One conversation and its runs."""
