"""``python -m runner.cli``: the same as the console script."""

from runner.cli.app import main

main()
