"""The report of a run as a page and as Markdown."""
