"""Lists the files that contain secrets, and the files that decide what other programs run."""
