"""The tool `execute_python`: runs code of a model in a sandbox. The code calls other tools as functions."""
