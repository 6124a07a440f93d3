"""Commands that look at recorded runs, or go on from one of their steps."""
