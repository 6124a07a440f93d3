"""What tools do to files: planned writes, and paths that are none of the disk."""
