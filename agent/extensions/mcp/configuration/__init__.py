"""The configuration of tool servers: the schema of a server table, and edits of configuration files."""
