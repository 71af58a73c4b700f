"""`dlx config`: show and check a job's configuration file."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.command_group import CommandGroup, command_group
from streaming.cli.completion import completion
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.options import DEFAULT_FILE, ConfigFile, find_config
from streaming.cli.output import AsJson, print_json, printable
from streaming.cli.run import alerts, starter_config

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.pipeline.intake.mapping_trial import Trial

app = command_group(
    "config",
    "Write, show and check dlx.toml; alerts; completion for a shell.",
    "dlx config init --definitions definitions.json",
    "dlx config show > dlx.toml",
    "dlx config check dlx.toml --secrets",
    "dlx config check --online",
    "dlx config alerts export monitoring",
)


File = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Instead of the one that --config finds.")
]


@app.command()
def show(file: File = None, *, config: ConfigFile = None) -> int:
    """Print a configuration with every default and a description of each setting.

    Without a file, --config or ./dlx.toml it prints the defaults. The output is itself a valid
    dlx.toml. For a secret it shows where to find it, never its text.
    """
    from streaming.config import JobConfig, read_config, show_config

    chosen = file or config or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    print(show_config(JobConfig() if chosen is None else read_config(chosen)), end="")
    return EXIT_OK


@app.command()
def check(
    file: File = None,
    *,
    config: ConfigFile = None,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Also check that every secret is available here.")
    ] = False,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Also ask Kafka: try each mapping on the last records of its topic, and print "
            "what each would become.",
        ),
    ] = False,
    last: Annotated[
        int,
        typer.Option(
            "--last", metavar="N", min=1, max=1000, help="Records of each topic for --online."
        ),
    ] = 5,
    as_json: AsJson = False,
) -> int:
    """Check a configuration and the definitions files that it names.

    It prints each problem on stderr as one line, with its path in the file. With --online it needs
    no job and writes nothing.

    Exit status: 0 if everything is valid, 1 if a record would be quarantined, 2 for a problem.
    """
    from streaming.config import load_config
    from streaming.config.definitions_files import check_secrets, load_vhost_definitions

    chosen = file or find_config(config)
    job = load_config(chosen)
    said = sys.stderr if as_json else sys.stdout
    load_vhost_definitions(job, lambda words: print(f"skipped: {words}", file=said))
    if secrets:
        check_secrets(job, os.environ)
    print(f"{chosen}: valid", file=said)
    return try_mappings(job, last, as_json=as_json) if online else EXIT_OK


def try_mappings(job: "JobConfig", last: int, *, as_json: bool) -> int:
    """Print what the last records of each mapped topic would become; return the exit status."""
    from streaming.config.clients import librdkafka_properties
    from streaming.pipeline.intake.mapping_trial import MappingTrials
    from streaming.protocol.record_headers import MalformedRecordError

    trials = MappingTrials(job, librdkafka_properties(job.kafka, os.environ))
    try:
        found = {each.topic: trials.run(each, last) for each in trials.inputs()}
    finally:
        trials.close()
    unfit = 0
    for topic, tried in found.items():
        faults = sum(isinstance(trial.outcome, MalformedRecordError) for trial in tried)
        unfit += faults
        if as_json:
            for trial in tried:
                print_json(_trial_row(trial))
            continue
        fit = f"{len(tried) - faults} of the last {len(tried)} records fit the mapping"
        print(f"{topic}: {fit if tried else 'has no records to try the mapping on'}")
        for trial in tried:
            print(printable(f"  {trial.partition}/{trial.offset}  {_trial_words(trial)}"))
    if not as_json:
        for topic in trials.missing():
            print(f"{topic}: does not exist yet; the job creates it")
        if not found:
            print("Kafka answers; no input has a mapping to try")
    return EXIT_FINDINGS if unfit else EXIT_OK


def _trial_row(trial: "Trial") -> dict[str, object]:
    """Return a record and what it would become."""
    from streaming.topic_mapping import MappedPublish

    place = {"topic": trial.topic, "partition": trial.partition, "offset": trial.offset}
    outcome = trial.outcome
    if not isinstance(outcome, MappedPublish):
        return {**place, "cause": outcome.cause, "detail": outcome.detail}
    return {
        **place,
        "vhost": outcome.vhost,
        "exchange": outcome.exchange,
        "routing_key": outcome.routing_key,
        "properties": dict(outcome.properties),
        "headers": json.loads(outcome.headers or b"null"),
    }


def _trial_words(trial: "Trial") -> str:
    row = _trial_row(trial)
    if "cause" in row:
        return f"quarantined ({row['cause']}): {row['detail']}"
    words = f"exchange {row['exchange']!r}, routing key {row['routing_key']!r}"
    if row["vhost"] != "/":
        words = f"vhost {row['vhost']!r}, {words}"
    for name in ("properties", "headers"):
        if row[name]:
            words += f", {name} {json.dumps(row[name], ensure_ascii=False)}"
    return words


app.command()(starter_config.init)
app.add_typer(alerts.app, cls=CommandGroup)
app.command()(completion)
