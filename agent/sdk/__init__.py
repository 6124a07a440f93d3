"""The Python interface of Sandbur, for programs that run agents."""
