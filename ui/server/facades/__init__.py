"""Protocols of other programs, spoken on the same routes, tokens and tenants: OpenAI, AG-UI, A2A, MCP."""
