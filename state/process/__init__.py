"""What every process of ours has: clock, cancellation, crash points, where it is installed."""
