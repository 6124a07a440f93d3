"""AG-UI 1.0: user interfaces run sessions, see them work, and decide about their calls."""
