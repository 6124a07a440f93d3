"""The tools of a session, and the part of them that the model gets in its requests."""
