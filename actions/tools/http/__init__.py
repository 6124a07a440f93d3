"""HTTP tools that people describe in tables, or choose from an API description, without writing code."""
