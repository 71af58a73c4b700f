"""What benchmarks print."""


def say(line: str) -> None:
    """Print a line at once, also into a file."""
    print(line, flush=True)
