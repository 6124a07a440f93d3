"""Work on stored sessions as a whole: verify, export, import, prune, annotate."""
