"""The commands of `sandbur`, in one module or one folder for each command."""
