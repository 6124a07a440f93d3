"""The user interfaces: command line, chat, headless output, editors, web."""
