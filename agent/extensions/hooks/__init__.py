"""Commands of the configuration that are told what happens, and may have a say in it."""
