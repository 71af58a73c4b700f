"""Calls a webhook: signed, tried again with pauses that grow, and given up at last.

    X-Dlx-Timestamp: 1764108000
    X-Dlx-Signature: sha256=HEX     HMAC-SHA256 of "TIMESTAMP.BODY" with the secret

An answer of 2xx is success. Nothing of the job waits for it: it is called from a thread of its own.
"""

import hashlib
import hmac
import json
import ssl
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from topology.errors import DlxError

TIMEOUT_S: Final = 10.0
FIRST_PAUSE_S: Final = 1.0
MOST_PAUSE_S: Final = 60.0
LEAST_SECRET: Final = 16


class WebhookError(DlxError):
    """The webhook was not told."""


class SecretError(DlxError):
    """The file with the secret cannot be used."""


def read_secret(path: str | None) -> bytes | None:
    """Read the secret of the signatures; None: messages are not signed.

    Raises:
        SecretError: it cannot be read, or is too short.
    """
    if path is None:
        return None
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as error:
        raise SecretError(f"alerts.webhook_secret: cannot read {path}: {error.strerror}") from error
    if len(secret) < LEAST_SECRET:
        raise SecretError(
            f"alerts.webhook_secret: {path} has {len(secret)} bytes; a secret needs {LEAST_SECRET}"
        )
    return secret


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """The signature of a message, as a receiver checks it."""
    return (
        "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    )


class Webhook:
    """One address.

    Args:
        url: http:// or https://.
        now: the clock, epoch seconds.

    Attributes:
        host: for messages: the rest of the URL may be a secret.
        address: host and port.
    """

    def __init__(
        self, url: str, secret: bytes | None, now: Callable[[], float] = time.time
    ) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, "the setting was checked"
        self._is_tls = parts.scheme == "https"
        self.address = (parts.hostname, parts.port or (443 if self._is_tls else 80))
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._secret, self._now = secret, now
        self.host = parts.hostname

    def tell(self, message: Mapping[str, object]) -> None:
        """Post a message.

        Raises:
            WebhookError: there was no answer in time, or another than 2xx.
        """
        body = json.dumps(message, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "dlx-stream"}
        timestamp = str(int(self._now()))
        headers["X-Dlx-Timestamp"] = timestamp
        if self._secret is not None:
            headers["X-Dlx-Signature"] = signature(self._secret, timestamp, body)
        connection = self._connection()
        try:
            connection.request("POST", self._path, body, headers)
            status = connection.getresponse().status
        except (OSError, HTTPException) as error:
            raise WebhookError(f"{self.host}: {str(error) or type(error).__name__}") from error
        finally:
            connection.close()
        if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            raise WebhookError(f"{self.host} answered {status}")

    def _connection(self) -> HTTPConnection:
        host, port = self.address
        if self._is_tls:
            context = ssl.create_default_context()
            return HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        return HTTPConnection(host, port, timeout=TIMEOUT_S)


def pause_s(attempts: int) -> float:
    """How long to wait after so many attempts in vain."""
    pause: float = FIRST_PAUSE_S * 2 ** min(attempts - 1, 10)
    return min(pause, MOST_PAUSE_S)
