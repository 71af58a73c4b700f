# ruff: noqa: INP001 (a script, not a module of a package)
"""The console in docker-compose.yml: a user with a new password, which the log has.

    console.py HOST:PORT

The container listens on every address of its own, so the console wants to know its users.
"""

import os
import secrets
import sys
import tempfile
from pathlib import Path

from streaming.console.logins import hash_password

USER = "dlx"


def main(listen: str) -> None:
    """Write the user and a configuration that names it, and become `dlx console`."""
    password = secrets.token_urlsafe(12)
    folder = Path(tempfile.mkdtemp())
    credentials, config = folder / "console.toml", folder / "dlx.toml"
    credentials.write_text(
        f'[users.{USER}]\npassword = "{hash_password(password)}"\nrole = "editor"\n'
        "administrator = true\n",
        "utf-8",
    )
    given = Path(os.environ["DLX_CONFIG"]).read_text("utf-8")
    config.write_text(f'{given}\n[console]\ncredentials = "{credentials}"\n', "utf-8")
    address = f"http://localhost:{listen.rpartition(':')[2]}/"
    print(f"console: {address} user {USER} password {password}", flush=True)  # noqa: T201 - for the log
    dlx = "/opt/dlx/dlx"
    os.execv(dlx, [dlx, "console", "--config", str(config), "--listen", listen])  # noqa: S606 - no shell


if __name__ == "__main__":
    main(*sys.argv[1:])
