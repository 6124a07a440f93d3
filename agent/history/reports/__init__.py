"""Reports about recorded runs: their events, cost and differences."""
