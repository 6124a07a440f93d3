"""The runs of an evaluation: their folders, turns and records, here and on workers."""
