"""`python -m streaming.cli`: what the wrapper at the root of a checkout runs."""

from streaming.cli.main import main

main()
