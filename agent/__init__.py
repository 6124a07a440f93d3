"""The agent: its graph, sessions, models, policy and configuration."""
