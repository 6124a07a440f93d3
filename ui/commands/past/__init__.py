"""Commands that read recorded runs, or fork from one of their steps."""
