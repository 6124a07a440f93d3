"""What runs in the sandbox; it imports nothing of Sandbur."""
