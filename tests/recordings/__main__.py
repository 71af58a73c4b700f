"""Pack recorded scenarios from a folder, or unpack them into one."""

import argparse
import sys
from pathlib import Path

from tests.recordings import pack, unpack

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.recordings", description=__doc__)
    parser.add_argument("action", choices=["pack", "unpack"])
    parser.add_argument("folder", type=Path, help="holds the folders golden and fuzz")
    arguments = parser.parse_args()
    count = {"pack": pack, "unpack": unpack}[arguments.action](arguments.folder)
    sys.stdout.write(f"{arguments.action}ed {count} scenarios\n")
