"""Facts that outlive sessions: with their origin, and with corrections that can be reversed."""
