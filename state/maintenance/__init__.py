"""What is done to stored sessions as a whole: verify, export, import, prune, annotate."""
