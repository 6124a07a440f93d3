"""The places of files that the file tools work with: the folder, the session, the store, others."""
