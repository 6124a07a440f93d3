"""Access control: tokens, hosts and origins, limits, the audit trail."""
