"""Skills: instructions for a kind of work, which a model reads when it needs them."""
