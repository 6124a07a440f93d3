"""The file tools: planned writes, and back ends other than the disk."""
