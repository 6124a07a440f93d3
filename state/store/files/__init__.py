"""Files that tools keep in the store, for one session or for all sessions."""
