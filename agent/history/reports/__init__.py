"""Reports about recorded runs: their events, their cost and their differences."""
