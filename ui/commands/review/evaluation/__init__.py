"""`sandbur eval`: its flags, what it does, and how its result is shown."""
