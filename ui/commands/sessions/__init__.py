"""`sandbur sessions`: what the store holds, one module for what belongs together."""
