"""The configuration of tool servers: the schema of a server, and edits of configuration files."""
