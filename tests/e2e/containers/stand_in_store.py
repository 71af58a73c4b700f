"""MinIO's image, as far as docker-compose.yml uses it: `minio server FOLDER`, by moto.

It runs in an image of this project, with moto's packages beside. A folder of its data is a bucket.
Objects are in memory, so they are gone when the container ends.
"""

import os
import sys
import threading
import time
from http.client import HTTPConnection
from pathlib import Path

from streaming.embedded import object_store_server

PORT = 9000
START_S = 60.0


def make_buckets(folder: Path) -> None:
    """Create a bucket for each folder, once the server answers."""
    deadline_s = time.monotonic() + START_S
    for bucket in sorted(one.name for one in folder.iterdir() if one.is_dir()):
        while True:
            connection = HTTPConnection("127.0.0.1", PORT)
            try:
                connection.request("PUT", f"/{bucket}")
                connection.getresponse().read()
                break
            except OSError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.2)
            finally:
                connection.close()


def main(command: str, folder: str) -> None:
    """Serve until the container stops."""
    assert command == "server"
    kept_open, _never_written = os.pipe()
    os.dup2(kept_open, 0)  # the server ends with its standard input
    threading.Thread(target=make_buckets, args=(Path(folder),), daemon=True).start()
    object_store_server.HOST = "0.0.0.0"  # type: ignore[misc] # noqa: S104 (a container)
    object_store_server.serve(PORT)


if __name__ == "__main__":
    main(*sys.argv[1:])
