"""The tracking UI in a browser: who may come in, and the page of what waits for a decision."""
