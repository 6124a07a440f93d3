"""`sandbur plan` and `/plan`: lists, shows and saves plans, and begins saved ones."""
