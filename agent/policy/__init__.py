"""The gate: what runs unasked, what asks, what is denied."""
