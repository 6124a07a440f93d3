"""Workers that Ray places on machines and starts again: their number follows the waiting sessions."""
