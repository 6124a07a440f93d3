"""Commands that a person or a project writes as markdown."""
