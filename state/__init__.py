"""The stored state: messages, plan, sessions, store, errors."""
