"""What a shell command means: its words, its scripts, the programs it names."""
