"""What a recorded run did and cost; what two differ in."""
