"""The commands about this installation: configuration, trust, checks and help."""
