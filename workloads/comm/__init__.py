"""Communication workloads: one file, one collective."""
