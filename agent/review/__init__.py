"""What a person reviews: plans before the work, and the changes of trials after it."""
