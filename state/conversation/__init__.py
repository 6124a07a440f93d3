"""What is said in a session: content blocks, messages, and histories that only grow."""
