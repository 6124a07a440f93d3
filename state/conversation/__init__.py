"""The conversation of a session: content blocks, messages, and append-only histories."""
