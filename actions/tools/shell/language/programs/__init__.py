"""What is known of programs that only read: their options, and which of their words are files."""
