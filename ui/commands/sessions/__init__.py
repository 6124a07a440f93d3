"""`sandbur sessions`: commands about the stored sessions."""
