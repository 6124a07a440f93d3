"""`sandbur eval`: its flags, its work, and the form of its result."""
