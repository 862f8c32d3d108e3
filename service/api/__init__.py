"""HTTP: bodies in, use cases, views out. Errors become RFC 9457 problems in one table."""
