"""Models that turn texts into vectors: endpoints of providers, and one that runs without a network."""
