"""Cost signals of training, counted in one process without a device or a cluster."""
