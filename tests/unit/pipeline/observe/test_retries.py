"""Which failures of a batch are tried again, and when."""

import pytest

from streaming.console.job_watch import CAUSES
from streaming.pipeline.checkpoint.job_state import FailingFile, read_failing
from streaming.pipeline.observe.retries import MOST_PAUSE_S, Retries, passing_cause

TASK = """[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure: Task 0
in stage 5.0 failed 4 times, most recent failure: Lost task 0.3 in stage 5.0:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            TASK + "OutboundError: outbound records of vhost '/': 401 records were not confirmed",
            "K",
        ),
        ("KafkaUnreachableError: kafka.bootstrap_servers: no answer from a:1 within 5 s", "K"),
        ("org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node", "K"),
        (TASK + "OSError: When reading: AWS Error NETWORK_CONNECTION during GetObject", "s"),
        ("deltalake.exceptions.DeltaError: Generic S3 error: error sending request", "s"),
        ("java.net.ConnectException: Connection refused", "s"),
        ('AbfsRestOperationException: Operation failed: "Server busy.", 503, PUT, http:', "s"),
        ("googleapis.json.GoogleJsonResponseException: 503 Service Unavailable\nPOST", "s"),
        ("googleapis.json.GoogleJsonResponseException: 429 Too Many Requests\nPOST", "s"),
        (
            "Status code: -1 error code: null error message: java.net.ConnectException: Connection "
            "refusedjava.net.ConnectException: Connection refused",
            "s",
        ),
        ("java.net.ConnectException: Call From vm/127.0.0.1 to h:9 failed on connection", "s"),
        ("Kernel error -> Generic HdfsObjectStore error: IO error occurred", "s"),
        ("StoreError: hdfs://h:9/t/a: HDFS: Connection refused (os error 111)", "s"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple", "e"),
        ("terminated with exception: s3a://b/dlx/commits/2 already exists SQLSTATE: XXKST", "e"),
        ("exception: File already exists: s3a://b/c/commits/2. Append or overwrite option", "e"),
        ("exception: Rename destination file:/c/offsets/17 already exists. SQLSTATE: XXKST", "e"),
        ("exception: Python worker failed to connect back. SQLSTATE: XXKST", "e"),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", "e"),
        (TASK + "A shuffle map stage with indeterminate output was failed and retried.", "e"),
    ],
)
def test_what_passes_by_itself_is_tried_again(text, cause):
    found = passing_cause(text)

    assert found is not None
    assert {"Kafka": "K", "the storage": "s"}.get(found, "e") == cause
    assert found in CAUSES, "the console says what to do"


@pytest.mark.parametrize(
    "text",
    [
        TASK + "KeyError: 'a bug of ours'",
        TASK + "OutboundError: outbound records of vhost '/': Broker: Topic authorization failed",
        TASK + "OutboundError: outbound records of vhost '/': Broker: Message size too large",
        "KafkaUnreachableError: no answer (SASL authentication error: Authentication failed)",
        "LostRecordsError: Kafka lost records of topic t",
        "DeltaError: Generic S3 error: status: 403 Forbidden, AccessDenied",
        'AbfsRestOperationException: Operation failed: "Not authorized.", 403, PUT, http:',
        "googleapis.json.GoogleJsonResponseException: 403 Forbidden\nPOST",
        "Generic HdfsObjectStore error: RPC error: AccessControlException: Permission denied",
        "DataFileConflictError: other content",
    ],
)
def test_what_lasts_ends_the_job(text, tmp_path):
    assert passing_cause(text) is None
    assert not Retries(FailingFile(tmp_path)).failed(text)
    failing = read_failing(tmp_path)
    assert failing is not None
    assert (failing.attempts, failing.cause, failing.next_ms) == (1, "", None)


def test_others_are_told_why_attempts_fail_until_a_batch_is_committed(tmp_path):
    retries = Retries(FailingFile(tmp_path, lambda: 1_000))
    text = TASK + "OutboundError: outbound records of vhost '/': 401 records were not confirmed"

    assert retries.failed(text)
    assert retries.failed(text)

    failing = read_failing(tmp_path)
    assert failing is not None
    assert failing.said.startswith("OutboundError: outbound records of vhost '/'")
    assert (failing.code, failing.cause) == ("batch-failed", "Kafka")
    assert (failing.attempts, failing.next_ms) == (2, 3_000)
    retries.succeeded()
    assert read_failing(tmp_path) is None


def test_pauses_double_up_to_a_minute_and_a_batch_resets_them(tmp_path):
    now_s = 100.0
    retries = Retries(FailingFile(tmp_path), lambda: now_s)
    pauses = []

    for _ in range(8):
        assert retries.failed("SendError: timed out")
        pauses.append(retries.left_s())
    retries.begun()
    retries.succeeded()
    retries.failed("SendError: timed out")

    assert pauses == [1, 2, 4, 8, 16, 32, MOST_PAUSE_S, MOST_PAUSE_S]
    assert retries.left_s() == 1


def test_an_attempt_without_a_failure_is_due_at_once_and_tells_others_nothing(tmp_path):
    retries = Retries(FailingFile(tmp_path), lambda: 100.0)

    retries.at_once()

    assert (retries.left_s(), read_failing(tmp_path)) == (0, None)


def test_an_attempt_is_due_after_its_pause(tmp_path):
    clock_s = [100.0]
    retries = Retries(FailingFile(tmp_path), lambda: clock_s[0])
    retries.failed("SendError: timed out")

    clock_s[0] = 102.0

    assert retries.left_s() == 0
    retries.begun()
    assert retries.due_s is None
