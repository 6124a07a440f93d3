"""A2A 1.0: other agents give tasks to the agents of this server, each task is a session."""
