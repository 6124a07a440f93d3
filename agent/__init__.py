"""Who the agent is: graph, session, models, policy, configuration."""
