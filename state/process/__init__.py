"""What every process of ours needs: clock, cancellation, crash points, identity, installation."""
