"""Operations on whole stored sessions: verify, export, import, prune, annotate."""
