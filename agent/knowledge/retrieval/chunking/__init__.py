"""Splits files into chunks with exact line or page ranges."""
