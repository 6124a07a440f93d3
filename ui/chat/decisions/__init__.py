"""The questions to a person about calls and trust, and their possible answers."""
