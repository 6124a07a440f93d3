"""`sandbur try`: runs in a copy of the folder, and what becomes of their changes."""
