"""Permission rules: for paths, shell commands and web addresses."""
