"""The databases of a store. This package does not depend on sessions."""
