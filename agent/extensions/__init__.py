"""Extensions: everything that can be added to the core, from tools and tool servers to middleware and
hooks."""
