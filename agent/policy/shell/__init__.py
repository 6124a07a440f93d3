"""Static analysis of command lines before they run."""
