"""Which failures of a batch pass by themselves, and when to try again.

    running --failure that passes--> waiting --pause over--> starting --> running
                                        ^                        | still the same
                                        +------------------------+

A pause doubles with each attempt in vain; a committed batch resets it. Trying again is what the
next start after a crash would do: Spark replays the unfinished batch. A file beside the checkpoint
says so to others.
"""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from streaming.pipeline.checkpoint.job_state import STORAGE, FailingFile
from streaming.pipeline.observe.failures import code_of_failure, reason_of_failure

FIRST_PAUSE_S: Final = 1.0
MOST_PAUSE_S: Final = 60.0
MAX_SHOWN: Final = 300

_LASTS: Final = re.compile(
    r"authori[sz]ation|authentication|Message size too large|MSG_SIZE_TOO_LARGE|Unknown topic"
    r"|UNKNOWN_TOPIC|Invalid|AccessDenied|Forbidden|NoSuchBucket|SignatureDoesNotMatch"
    r"|status:? 40[13]|AccessControlException|Permission denied",
    re.IGNORECASE,
)
"""Refusals: the same answer will come again."""

_CAUSES: Final = (
    (
        "Kafka",
        re.compile(
            r"OutboundError: |SendError: |KafkaUnreachableError: "
            r"|org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|Retriable"
            r"|NotLeaderOrFollower|LeaderNotAvailable|CoordinatorNotAvailable|BrokerNotAvailable"
            r"|NotEnoughReplicas\w*|FetchSessionTopicId|UnstableOffsetCommit)Exception"
            r"|java\.util\.concurrent\.TimeoutException"
            r"|KafkaException\W.{0,80}(_TRANSPORT|_TIMED_OUT|_ALL_BROKERS_DOWN)"
        ),
    ),
    (
        STORAGE,
        re.compile(
            r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE"
            r"|REQUEST_TIMEOUT|UNKNOWN)|SdkClientException|Generic "
            r"(S3|GCS|MicrosoftAzure|HdfsObjectStore)\w* error"
            r"|AzureBlobFileSystemException|java\.net\.(Connect|SocketTimeout|Socket|UnknownHost"
            r"|NoRouteToHost)Exception|[Cc]onnection (refused|reset)|error sending request"
            r"|hadoop\.(ipc\.(Retriable|Standby)|hdfs\.server\.namenode\.SafeMode)Exception"
            r"|503 Service Unavailable|Slow ?Down"
            r'|Operation failed: "[^"]{0,400}", (-1|429|5\d\d),'  # Hadoop's, of Azure
            r"|GoogleJsonResponseException: (408|429|5\d\d)"  # Hadoop's, of Google
        ),
    ),
    (
        "an executor that was lost",
        re.compile(
            r"ExecutorLostFailure|FetchFailed|worker lost|Remote RPC client disassociated"
            r"|Python worker exited unexpectedly|Executor heartbeat timed out"
            r"|Could not execute broadcast|Failed to get (broadcast|block)"
            r"|stage with indeterminate output was failed and retried"
        ),
    ),
    (  # the start has checked that Python starts at all
        "a Python worker that a busy machine started too late",
        re.compile(r"Python worker failed to connect back"),
    ),
    (
        "a driver that has lost its lease: it planned or ended a batch when it woke up",
        re.compile(
            r"CONCURRENT_STREAM_LOG_UPDATE|/(offsets|commits)/\d+ already exists"
            r"|already exists: \S+/(offsets|commits)/\d+\b"
        ),
    ),
)


def passing_cause(text: str) -> str | None:
    """What a batch failed for, if that may pass by itself; None: it lasts, or is not known.

    Args:
        text: Spark's text of the failure, with the exceptions of tasks and of the driver.
    """
    for cause, pattern in _CAUSES:
        found = pattern.search(text)
        if found is None:
            continue
        said = text[found.start() : found.start() + MAX_SHOWN].splitlines()[0]
        return None if _LASTS.search(said) else cause
    return None


class Retries:
    """When to start again after a failure.

    Args:
        file: tells others which attempts failed.
        monotonic: the clock; seconds.

    Attributes:
        due_s: when the next attempt is due; None: none is needed.
    """

    def __init__(self, file: FailingFile, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.due_s: float | None = None
        self._file = file
        self._monotonic = monotonic
        self._attempts = 0

    def failed(self, text: str) -> bool:
        """Plan another attempt, and return True, unless the failure does not pass by itself."""
        cause = passing_cause(text)
        if cause is None:
            self.ended(text)
            return False
        pause_s = min(FIRST_PAUSE_S * 2.0**self._attempts, MOST_PAUSE_S)
        self._attempts += 1
        self.due_s = self._monotonic() + pause_s
        code = code_of_failure(text)
        self._file.failed(code, _shown(text), cause, pause_s)
        logging.getLogger("dlx").warning(
            "the batch failed because of %s; attempt %d starts in %g s (dlx doctor explain %s): %s",
            *(cause, self._attempts + 1, pause_s, code, _shown(text)),
        )
        return True

    def at_once(self) -> None:
        """Plan another attempt, without a failure and without a pause."""
        self.due_s = self._monotonic()

    def ended(self, text: str) -> None:
        """Note a failure after which the job ends."""
        said = reason_of_failure(text) or text
        self._file.failed(code_of_failure(text), _shown(said))

    def left_s(self) -> float:
        """Seconds until the next attempt; 0 if it is due."""
        assert self.due_s is not None, "no attempt is planned"
        return max(0.0, self.due_s - self._monotonic())

    def begun(self) -> None:
        """Notify that an attempt has started."""
        self.due_s = None

    def succeeded(self) -> None:
        """Notify that a batch is committed."""
        self._attempts = 0
        self._file.succeeded()


def _shown(text: str) -> str:
    """The line of a failure that says most."""
    for _, pattern in _CAUSES:
        found = pattern.search(text)
        if found is not None:
            begin = text.rfind("\n", 0, found.start()) + 1
            return text[begin:].splitlines()[0].strip()[:MAX_SHOWN]
    return next(iter(text.splitlines()), "")[:MAX_SHOWN]
