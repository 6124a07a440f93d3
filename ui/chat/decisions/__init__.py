"""What a person is asked, and what may be answered."""
