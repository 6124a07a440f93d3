"""The nine actions of the graph, and the tools they run."""
