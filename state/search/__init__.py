"""Search in the texts of collections: words, fragments of words and vectors."""
