"""The commands of plans and trials, which a person reviews."""
