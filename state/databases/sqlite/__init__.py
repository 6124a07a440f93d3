"""SQLite: opens, locks and migrates a file, and reads it without its indexes if they are damaged."""
