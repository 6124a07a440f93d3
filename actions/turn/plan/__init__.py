"""Plans: the tools that steer one, the turns of its steps, and what an approved one allows."""
