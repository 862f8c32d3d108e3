"""One script per figure we claim; each prints a table. `make bench` runs them all."""
