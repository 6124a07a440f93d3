"""The tracking UI in a browser: access control, and the page of waiting decisions."""
