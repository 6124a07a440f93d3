"""`sandbur policy`: prints the gate's verdicts on new calls and on recorded calls."""
