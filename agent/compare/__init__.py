"""Two runs beside each other: where they part, and what is different from there on."""
