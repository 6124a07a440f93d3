"""Adapters to the evaluation harnesses of others. Each module needs the package of its harness."""
