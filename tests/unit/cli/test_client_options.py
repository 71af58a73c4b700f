"""The options of the commands that talk to a running job."""

import subprocess
import sys

import pytest

from streaming.config import JobConfig, show_config
from streaming.config.kafka import KafkaSettings

COMMAND = (sys.executable, "-P", "-m", "streaming.cli")


@pytest.mark.parametrize(
    "arguments",
    [
        ("publish", "x", "--timeout", "nan"),
        ("publish", "x", "--timeout", "inf"),
        ("get", "q", "--lease", "inf"),
        ("consume", "q", "--idle", "nan"),
    ],
    ids=" ".join,
)
def test_nan_and_inf_seconds_are_a_usage_error(dlx, arguments):
    status, out, err = dlx(*arguments)

    assert (status, out) == (2, "")
    assert f"invalid value for '{arguments[2]}': must be at most 604800, a week" in err


@pytest.mark.parametrize("arguments", [("get", "q"), ("publish", "x", "-k", "q")], ids=" ".join)
def test_an_unreachable_kafka_is_reported_in_one_line(tmp_path, arguments):
    settings = JobConfig(kafka=KafkaSettings(bootstrap_servers=("127.0.0.1:9",)))
    file = tmp_path / "dlx.toml"
    file.write_text(show_config(settings))

    ended = subprocess.run(
        [*COMMAND, *arguments, "--config", str(file), "--timeout", "1"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("no answer from Kafka at 127.0.0.1:9 within 1 s (")
    assert "Connection refused" in line
