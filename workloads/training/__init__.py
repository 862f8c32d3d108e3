"""Training workloads: one file, one workload."""
