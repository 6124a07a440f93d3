"""Where the files are that the file tools work with: the folder, the session, the store, another place."""
