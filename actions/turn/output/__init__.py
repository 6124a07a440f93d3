"""The form that an answer must have: what is asked of a model, and whether it did it."""
