"""`sandbur mcp`: manages tool servers, and serves Sandbur as one."""
