"""Files that tools keep in the store: of one session, or of all."""
