"""Message hubs: agents that hear each other."""
