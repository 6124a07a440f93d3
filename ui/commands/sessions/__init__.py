"""`sandbur sessions`: lists, shows, checks, deletes, exports and imports stored sessions."""
