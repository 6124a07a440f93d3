"""The input line of the chat: keys, pastes, history, completion."""
