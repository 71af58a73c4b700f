"""A job whose batches fail, or that does not run, is seen on the first page, and why."""

import html
import re

import pytest
from filelock import FileLock

from streaming.pipeline.checkpoint.checkpoint import LOCK_FILE
from streaming.pipeline.checkpoint.job_state import FailingFile


def words(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture
def config(tmp_path):
    """The configuration of a job whose Kafka does not answer, with a checkpoint."""
    (tmp_path / "checkpoint").mkdir()
    file = tmp_path / "dlx.toml"
    file.write_text(
        '[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n[job]\ncheckpoint_location = "checkpoint"\n'
    )
    return file


@pytest.fixture
def lock(config):
    """The lock of a job that runs."""
    return FileLock(config.with_name("checkpoint") / LOCK_FILE)


@pytest.fixture
def failing(config):
    """What the job says of its attempts."""
    return FailingFile(config.with_name("checkpoint"))


def test_a_job_that_tries_again_is_seen_with_its_attempts_and_what_to_do(
    make_client, shop_root, config, lock, failing
):
    with lock:
        for _ in range(15):
            failing.failed("kafka-unreachable", "<no answer> from a:1", "Kafka", 60.0)
        client = make_client(shop_root, config=config)
        pages = [client.get(path).text for path in ("/", "/health")]

    assert re.search('class="verdict bad" id="verdict"', pages[0])
    assert "no batch is committed: 15 attempts failed since 2" in words(pages[0])
    for page in pages:
        assert "data-failing" in page
        said = words(page)
        assert re.search(
            r"15 have failed, the last \d+ s ago\. The job tries again by itself", said
        )
        assert "Kafka does not answer, or did not take what the job sent." in said
        assert "<no answer> from a:1" in said
        assert "dlx doctor explain kafka-unreachable" in said


def test_a_job_that_has_ended_says_how_to_go_on(make_client, shop_root, config, lock, failing):
    with lock:
        failing.failed("batch-failed", "KeyError: 'a bug'")

    said = words(make_client(shop_root, config=config).get("/").text)

    assert "the job has ended: 1 attempt to commit a batch failed" in said
    assert "nobody tries again" in said
    assert "Then start the job again with `dlx run`" in said


def test_a_job_that_does_not_run_is_seen_at_once(make_client, shop_root, config, lock):
    with lock:
        pass

    client = make_client(shop_root, config=config)

    assert "the job does not run since the last batch" in words(client.get("/").text)
    assert "Job does not run" in words(client.get("/health").text)
    assert "does not run" not in words(client.get("/?as_of=0").text), "it is about now"


def test_without_its_checkpoint_nothing_is_said_of_the_job(make_client, shop_root, config):
    client = make_client(shop_root, config=config)

    assert "the job does not run since" not in words(client.get("/").text)
    assert "Job unknown its checkpoint is not known here" in words(client.get("/health").text)


def test_a_viewer_sees_that_batches_fail_and_not_what_the_error_says(
    make_client_of_anna, shop_root, config, lock, failing
):
    failing.failed("kafka-unreachable", "secret.example:9092", "Kafka", 60.0)

    page = make_client_of_anna(shop_root, config=config).get("/").text

    assert "data-failing" in page
    assert "secret.example" not in page
