"""The gate: decides which calls run, which need approval, and which are denied."""
