"""The language models an agent can talk to."""
