"""`dlx explain`: every error of a job has a code, and every code a text."""

import importlib
import pkgutil

import streaming.metrics
import streaming.pipeline
from streaming.cli.doctor.explain import explanations
from topology.errors import DlxError


def classes_below(one):
    for each in one.__subclasses__():
        yield each
        yield from classes_below(each)


def test_every_error_of_a_job_has_a_code_with_an_explanation():
    for package in (streaming.pipeline, streaming.metrics):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    errors = {
        one
        for one in classes_below(DlxError)
        if one.__module__.startswith(("streaming.pipeline", "streaming.json_file"))
    }
    without = {one.__name__ for one in errors if not one.help_code}
    codes = {one.help_code for one in classes_below(DlxError)} - {""}

    assert without == {"TrialError"}  # of `dlx config check`
    assert codes | {"batch-failed"} == set(explanations())


def test_a_code_is_explained(dlx):
    code, out, err = dlx("explain", "lost-records")

    assert (code, err) == (0, "")
    assert "--accept-loss" in out


def test_without_a_code_all_are_listed(dlx):
    assert dlx("explain")[1].split() == list(explanations())


def test_an_unknown_code_is_refused_with_the_nearest(dlx):
    code, out, err = dlx("explain", "kafka-unreachabl")

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
    assert err.rstrip().endswith("(dlx explain kafka-unreachable)")
