"""Grafana's image, as far as docker-compose.yml uses it.

It reads its provisioning as Grafana's user, and is healthy if it could read every file.
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

USER = 472


class Health(BaseHTTPRequestHandler):
    """Answers /api/health."""

    def do_GET(self) -> None:
        """Read the provisioning and the dashboards, and say which there are."""
        provisioning = Path(os.environ["GF_PATHS_PROVISIONING"])
        found = sorted(provisioning.rglob("*.yml")) + sorted(provisioning.parent.glob("*.json"))
        for file in found:
            file.read_bytes()
        body = json.dumps({"database": "ok", "files": [file.name for file in found]}).encode()
        self.send_response(200 if self.path == "/api/health" and found else 404)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    os.setgid(USER)
    os.setuid(USER)
    ThreadingHTTPServer(("0.0.0.0", 3000), Health).serve_forever()  # noqa: S104 (a container)
