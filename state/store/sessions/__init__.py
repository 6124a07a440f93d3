"""The sessions of a store: their rows, who may write them, what waits for them."""
