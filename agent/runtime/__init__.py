"""Creates an agent from its settings and parts, and opens its sessions."""
