"""Permission rules: their syntax, and how they match paths, shell commands and web addresses."""
