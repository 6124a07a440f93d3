"""The code that runs inside the sandbox. It imports nothing of Sandbur."""
