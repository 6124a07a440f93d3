"""Token counts from the providers' own endpoints."""
