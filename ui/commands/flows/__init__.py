"""`sandbur flows`: the flows of a folder or an agent, and which one a text would start."""
