"""`python -m service.cli`: the command line from a checkout."""

from service.cli import main
from service.entry import hide_process

hide_process()
main()
