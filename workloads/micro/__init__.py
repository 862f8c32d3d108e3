"""Workloads of one rank, which communicate with nobody: they tell a slow node from slow code."""
