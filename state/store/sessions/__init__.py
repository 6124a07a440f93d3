"""The sessions of a store: their rows, the leases of their writers, and their inboxes."""
