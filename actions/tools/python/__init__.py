"""The tool `execute_python`: a model's code in a sandbox, which calls other tools as functions."""
