"""What somebody adds: tools and how they are chosen, servers of tools, middleware, hooks."""
