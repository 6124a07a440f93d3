"""What tests of agents use; public as `sandbur.testing`."""
