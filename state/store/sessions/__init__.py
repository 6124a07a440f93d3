"""The sessions of a store: their rows, their writer's lease, their inbox."""
