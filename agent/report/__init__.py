"""The account of a run: one reading of everything recorded, for every format in which people read it."""
