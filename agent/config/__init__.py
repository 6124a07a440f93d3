"""Settings: their sources, types and values."""
