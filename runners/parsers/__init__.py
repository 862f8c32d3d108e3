"""Reading logs of programs that are not ours: one file per format."""
