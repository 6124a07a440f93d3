"""How tool servers are configured: what a table of one holds, and how files are edited."""
