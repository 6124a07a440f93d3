"""What happens to a message before a model is asked: triggers, flows and their answers."""
