"""Keeps the rows of knowledge bases equal to the files and pages that a person added."""
