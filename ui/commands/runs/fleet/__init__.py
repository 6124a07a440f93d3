"""`sandbur worker`: runs the waiting sessions of a store."""
