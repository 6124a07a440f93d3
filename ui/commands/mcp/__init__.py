"""`sandbur mcp`: tool servers of others, and Sandbur as one."""
