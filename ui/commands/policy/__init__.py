"""`sandbur policy`: what the gate says, and what it would have said."""
