"""The gate: which calls run, which need approval, which are denied."""
