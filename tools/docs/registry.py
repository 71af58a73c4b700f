"""How each code block of the documentation is checked.

A block that nothing here accounts for fails tests/unit/docs/test_blocks.py.

    console   run again and compared: `./dlx ...` in the checkout; `dlx ...` where PLACE says
    sh        each line runs without a failure, or RUN_BY names the test that runs it, or NOT_RUN
              says why nothing does
    python    run by the test that PLACE names
    sql       run by tests/spark/test_sql_cookbook.py
    json      a scenario is played; definitions, a command or a record of the wire format is read
    toml      is a valid part of a dlx.toml
    go, java  the requests in them are answered (AMQP); those of docs/clients/ are programs
    ruby, php programs of docs/clients/, which `python -m tests.clients` runs
    mermaid   what the `./dlx diagram` in the comment above it prints
"""

from typing import Final

SHOP: Final = "tests/unit/docs/test_shop_sessions.py"
JOB: Final = "tests/e2e/test_documentation.py"
FIRST_JOB: Final = "tests/e2e/test_first_job.py"
AMQP: Final = "tests/unit/testing/test_documentation.py"
"""It runs the test on the page of the AMQP broker, and the requests of other languages."""

CLIENTS: Final = "tests/unit/testing/test_client_pages.py"
"""It runs the page of the client library that is installed for tests."""

OTHER_CLIENTS: Final = "tests/clients/running.py"
"""What runs the pages of the other libraries, by hand."""

STORY: Final = "tests/e2e/console/test_visitors_story.py"
"""The test that takes the pictures of the console."""

RECEIVER: Final = "tests/unit/metrics/alerting/test_receiver_page.py"
"""It runs the receiver of alerts, and what the page sends to it."""

COOKBOOK: Final = "tests/spark/test_sql_cookbook.py"
OF_SHOP: Final = (SHOP, COOKBOOK)
"""The tests of the pages whose sessions ask the tables of the shop."""

PLACE: Final = {
    "README.md": JOB,
    "docs/quickstart.md": JOB,
    "docs/first-job.md": FIRST_JOB,
    "docs/first-job-kafka.md": FIRST_JOB,
    "docs/operating.md": JOB,
    "docs/python-client.md": JOB,
    "docs/tracing.md": JOB,
    "docs/amqp.md": AMQP,
    "docs/clients/pika.md": CLIENTS,
    "docs/clients/aio-pika.md": OTHER_CLIENTS,
    "docs/clients/celery.md": OTHER_CLIENTS,
    "docs/clients/dramatiq.md": OTHER_CLIENTS,
    "docs/dead-letters.md": SHOP,
    "docs/sql.md": COOKBOOK,
    "docs/alerts.md": RECEIVER,
}
"""The test that runs a page's `dlx ...` sessions and its Python, with tables or a job for them."""

PURE: Final = ("check", "config", "diagram", "route", "simulate", "--help")
"""Commands that need nothing but the checkout."""

RUN_BY: Final = {
    "./dlx reset": "tests/unit/cli/test_reset.py",
    "dlx run --with-kafka": FIRST_JOB,
    "dlx amqp --memory": "tests/unit/cli/test_amqp.py",
    "dlx amqp": "tests/e2e/amqp/test_on_kafka.py",
    "curl -u guest:guest": "tests/e2e/amqp/test_management.py",
    "dlx deployed": "tests/e2e/client/test_command_line.py",
    "dlx kafka": "tests/e2e/test_kafka_command.py",
    "dlx checkpoint rebuild": "tests/e2e/test_rebuild.py",
    "./dlx demo": "tests/e2e/test_demo.py",
    "./dlx demo --dir demo --seconds 10 --keep": STORY,
    "./dlx run --config dlx.toml": "tests/e2e/test_run_command.py",
    "pip install": "tests/unit/packaging/test_wheel.py",
    "dlx definitions replay": "tests/unit/cli/test_what_if.py",
    "dlx dead-letters export": "tests/unit/cli/test_dead_letter_groups.py",
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 dlx run": "tests/e2e/client/test_redrive.py",
    "dlx console": "tests/unit/console/test_command.py",
    "dlx config alerts": "tests/unit/metrics/test_alerts.py",
    "dlx dead-letters redrive": "tests/unit/cli/test_redrives.py",
    "dlx dead-letters discard": "tests/unit/cli/test_redrives.py",
    "dlx dead-letters restore": "tests/unit/cli/test_redrives.py",
    "dlx redrives": "tests/unit/cli/test_redrives.py",
    "openssl rand -hex 32": RECEIVER,
    "python3 receiver.py": RECEIVER,
    "body=": RECEIVER,
    "signed=": RECEIVER,
    "curl --retry 9": RECEIVER,
    "dlx spark sql -e": "tests/spark/test_sql_shell.py",
    "dlx spark pyspark": "tests/spark/test_sql_shell.py",
}
"""Lines of `sh` blocks, or their beginnings, that a test of another folder runs."""

NOT_RUN: Final = {
    "DLX_TLS_DIR=/etc/ssl/mine docker compose": "needs a container engine",
    "DLX_KAFKA_PORT=19092 docker compose": "needs a container engine",
    "docker compose": "needs a container engine, with which tests/e2e/containers runs it",
    "./dlx publish hello": "needs the containers: tests/e2e/containers runs it",
    "./dlx test": "runs these tests",
    "./dlx docs": "tests/unit/docs runs what it does",
    ".venv/bin/mutmut": "takes hours",
    "alias dlx": "for an interactive shell",
    "cd demo": "for an interactive shell",
}
"""Lines of `sh` blocks that no test runs, and why."""
