"""Commands about this installation: configuration, trust, checks and help."""
