"""The example project, whose tests run in memory elsewhere, on a real RabbitMQ in real time."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "amqp-test"


def test_the_tests_of_the_example_pass_on_a_real_rabbitmq(rabbitmq):
    ended = subprocess.run(
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=EXAMPLE,
        env={**os.environ, "AMQP_URL": rabbitmq},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "3 passed" in ended.stdout, ended.stdout
