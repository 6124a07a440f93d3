"""Time travel: forks, the files of an earlier step, and the search for the step that broke a command."""
