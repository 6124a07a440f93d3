"""What other models decide at the requests of past sessions."""
