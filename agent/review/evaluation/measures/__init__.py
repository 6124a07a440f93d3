"""What the runs of an evaluation are measured by, and how contenders are compared."""
