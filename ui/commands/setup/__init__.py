"""This installation: what is configured and trusted, what works, how to be helped."""
