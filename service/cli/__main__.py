"""`python -m service.cli`: the command line from a checkout."""

from service.cli import main

main()
