"""`sandbur policy`: prints verdicts of the gate for new calls and for recorded calls."""
