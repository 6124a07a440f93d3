"""The protocols of others that the server speaks, so that their clients work with its sessions."""
