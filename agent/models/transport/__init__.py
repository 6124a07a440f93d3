"""How the bytes of a request go to a model server, and its events come back."""
