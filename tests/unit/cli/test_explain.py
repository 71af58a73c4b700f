"""`dlx doctor explain`: every error of a job has a code, and every code a text."""

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import streaming.contents
import streaming.embedded
import streaming.exposition
import streaming.ledger
import streaming.metrics
import streaming.pipeline
import streaming.spark
import streaming.storage.json_file
from streaming.cli.doctor.explain import explanations
from streaming.pipeline.observe.failures import code_of_failure, reason_of_failure
from topology.errors import DlxError

JOB = (
    *(streaming.contents, streaming.embedded, streaming.exposition, streaming.ledger),
    *(streaming.metrics, streaming.pipeline, streaming.spark),
)

NO_ERRORS_OF_A_JOB = {
    "InvalidConfigError": "of `dlx config check`",
    "QueryError": "of `dlx erase` and `dlx ledger`",
    "TrialError": "of `dlx config check`",
    "UnknownFamilyError": "the answer to a request for metrics",
    "PromtoolError": "of `dlx config alerts test`",
    "SecretError": "a mistake of the configuration: it names the setting, the file and the remedy",
    "WebhookError": "the alerter logs it and tries again",
}


def classes_below(one):
    for each in one.__subclasses__():
        yield each
        yield from classes_below(each)


def modules_of_the_job():
    """The modules that a job runs, and those that it starts with."""
    for package in JOB:
        yield package
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(module.name)
    yield streaming.storage.json_file


def raised_in(module):
    """The classes of the errors that a module raises."""
    for node in ast.walk(ast.parse(Path(module.__file__).read_text("utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            found = getattr(module, getattr(node.exc.func, "id", ""), None)
            if isinstance(found, type):
                yield found


def test_every_error_that_a_job_raises_has_a_code():
    raised = {one for module in modules_of_the_job() for one in raised_in(module)}
    ours = {one for one in raised if issubclass(one, DlxError)}

    assert len(ours) > 15
    assert {one.__name__ for one in ours if not one.help_code} == NO_ERRORS_OF_A_JOB.keys()


def test_every_code_has_an_explanation_and_every_explanation_a_code():
    list(modules_of_the_job())
    importlib.import_module("streaming.listening")
    importlib.import_module("streaming.sequencer.front")

    codes = {one.help_code for one in classes_below(DlxError)} - {""}

    assert codes | {"batch-failed"} == set(explanations())


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("streaming.ledger.errors.CommitError: Delta refused", "commit-refused", "Delta refused"),
        (
            "Traceback\n" + 100 * "  a line\n" + "BodyMissingError: message 1 is missing\n\n",
            "message-row",
            "message 1 is missing",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "batch-failed", None),
        ("", "batch-failed", None),
    ],
)
def test_a_failed_batch_names_the_code_of_its_error_and_what_that_says(text, code, reason):
    list(modules_of_the_job())

    assert (code_of_failure(text), reason_of_failure(text)) == (code, reason)


def test_a_code_is_explained(dlx):
    code, out, err = dlx("doctor", "explain", "lost-records")

    assert (code, err) == (0, "")
    assert "--accept-loss" in out


def test_without_a_code_all_are_listed(dlx):
    assert dlx("doctor", "explain")[1].split() == list(explanations())


def test_an_unknown_code_is_refused_with_the_nearest(dlx):
    code, out, err = dlx("doctor", "explain", "kafka-unreachabl")

    assert (code, out) == (2, "")
    assert "'kafka-unreachable'" in err


def test_an_error_of_a_job_ends_in_its_code(dlx, tmp_path):
    (tmp_path / "dlx.toml").write_text(
        f'[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\nconnect_timeout_ms = 300\n'
        f'[job]\ncheckpoint_location = "{tmp_path}/checkpoints"\n'
        f'tables_location = "{tmp_path}/tables"\nlog_dir = "{tmp_path}/logs"\n'
    )

    code, _, err = dlx("run", "--config", tmp_path / "dlx.toml")

    assert code == 2
    assert err.rstrip().endswith("(dlx doctor explain kafka-unreachable)")
