"""The programs that other programs start: wrapped commands, texts among arguments, scripts of `sed`."""
