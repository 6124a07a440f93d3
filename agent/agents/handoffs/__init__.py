"""Hand-offs: a conversation goes on with another agent."""
