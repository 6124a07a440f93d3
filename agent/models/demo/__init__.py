"""The scripted model that ships: no key, no network, real tools."""
