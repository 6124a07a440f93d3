"""The code that runs in the supervisor of a command, between fork and exec. It uses only the standard
library.
"""
