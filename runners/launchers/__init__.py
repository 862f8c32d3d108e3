"""How a trial is started: one file per launcher, found by its module name."""
