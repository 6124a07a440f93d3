"""What is remembered: messages, plan, state, store, errors."""
