"""Text for a terminal: sanitized, wrapped, colored, as markdown or as a diff."""
