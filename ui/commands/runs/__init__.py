"""Commands that decide about a session, leave it a message, or carry it on."""
