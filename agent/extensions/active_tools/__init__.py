"""The tools of a session, and the choice of those that a model request offers."""
