"""Stores on a database server: PostgreSQL, MariaDB and MySQL."""
