"""Clients of the HTTP interface in Python and TypeScript, generated from its OpenAPI document."""
