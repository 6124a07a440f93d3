"""Commands that decide about calls of a session, send it a message, or resume it."""
