"""Sessions of the store as Burr's tracking server shows them."""
