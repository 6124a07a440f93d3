"""Tool servers: their tools in our sessions, and our sessions as tools of other agents."""
