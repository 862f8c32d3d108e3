"""Workloads around the data of training: loaders alone, loaders that feed it, checkpoints."""
