"""What you see: command line, chat, headless output."""
