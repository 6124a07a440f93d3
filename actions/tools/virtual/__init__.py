"""The file tools for paths that are none of the disk."""
