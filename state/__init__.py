"""The data that is stored: messages, plans, sessions. Also the store itself, and the errors of all rooms."""
