"""Run the programs of docs/clients/: `python -m tests.clients pika bunny`; all without names."""

import argparse
import sys
from pathlib import Path

from streaming.user_folders import user_cache_folder
from tests.clients.programs import PROGRAMS
from tests.clients.running import ProgramError, run_program


def main() -> int:
    """Run some; the exit status is 1 if one did not do what its page says."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--folder", type=Path, default=user_cache_folder() / "clients")
    options = parser.parse_args()
    failed = False
    for name in options.names or PROGRAMS:
        try:
            run_program(name, (options.folder / name).absolute())
        except ProgramError as error:
            failed = True
            sys.stdout.write(f"{name}: {error}\n")
        else:
            sys.stdout.write(f"{name}: {PROGRAMS[name].prints}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
