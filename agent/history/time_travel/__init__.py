"""Forks, files of an earlier step, the step after which something fails."""
