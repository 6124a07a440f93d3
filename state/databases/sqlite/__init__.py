"""SQLite: one file, opened, locked, migrated and read without its indexes."""
