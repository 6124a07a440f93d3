"""The input line: keys, pastes, history, completion."""
