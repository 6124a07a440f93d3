"""The databases of a store; this package knows nothing about sessions."""
