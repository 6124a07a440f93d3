"""MCP over streamable HTTP: other agents start, watch and decide sessions as tools."""
