"""What becomes of results before a model reads them."""
