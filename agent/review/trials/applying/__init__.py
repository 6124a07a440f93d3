"""Applies the difference of a trial to the original folders, as one call that the journal records."""
