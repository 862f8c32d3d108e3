"""Model families the workloads train."""
