"""Edits configuration files and keeps everything else that people wrote in them."""
