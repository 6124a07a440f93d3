"""The back ends of the file tools: the folder, the memory of the session, the store, and those of
programs.
"""
