"""HTTP tools that people write as tables, or choose from an API description: no code, no strings glued."""
