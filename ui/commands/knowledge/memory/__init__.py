"""`sandbur memory` and `/memory`: what outlives a session, looked at and corrected by a person."""
