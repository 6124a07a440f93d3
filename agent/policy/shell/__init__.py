"""What a command line does, as far as it can be seen before it runs."""
