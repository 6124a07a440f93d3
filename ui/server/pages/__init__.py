"""The web chat: a static page that uses the HTTP interface and nothing else."""
