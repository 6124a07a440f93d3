"""The parts of the view of a run."""
