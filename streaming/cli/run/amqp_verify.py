"""`dlx amqp verify`: fold the log of a sequenced vhost again, and say where two folds part."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.options import OwnConfigFile, find_config
from streaming.cli.output import AsJson, print_json, printable

if TYPE_CHECKING:
    from streaming.config import JobConfig
    from streaming.sequencer.snapshots import Snapshots
    from streaming.sequencer.verify import Verdict


def verify(
    config: OwnConfigFile = None,
    vhost: Annotated[
        list[str] | None,
        typer.Option(
            "--vhost",
            metavar="NAME",
            help="A sequenced vhost; may be repeated. Default: all of the configuration.",
        ),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="STATE",
            help="Fold on from the snapshot at this offset, or from the start of the log. Default: "
            "the start, or the oldest snapshot if the log has no start any more.",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="STATE",
            help="Compare, record by record, with the fold from another snapshot or the start.",
        ),
    ] = None,
    to: Annotated[
        int | None,
        typer.Option(
            "--to", metavar="OFFSET", min=1, help="Fold the records before this one. Default: all."
        ),
    ] = None,
    *,
    any_terms: Annotated[
        bool,
        typer.Option(
            "--any-terms",
            help="Fold records of other versions and other settings, too: does this one come to "
            "the same?",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Fold the log of a sequenced vhost again, and compare.

    The front writes a checksum of what came of the log each 4,096 records. This fold must come to
    the same. If it does not, the difference is named by the range of offsets; with --against,
    which compares two folds that are made here, by the offset. STATE is `start` or the offset of a
    snapshot. Nothing is written; job and front may run.

    Exit status: 0, 1 if folds part, 2 if a log cannot be folded.
    """
    from streaming.cli.run.amqp_on_kafka import chosen_vhosts
    from streaming.config import load_config
    from streaming.made_vhosts import with_made_vhosts

    loaded = with_made_vhosts(load_config(find_config(config, or_demo=False)))
    has_parted = False
    for name in chosen_vhosts(loaded, vhost or []):
        verdict = _verify(loaded, name, (begin, against), to, any_terms=any_terms)
        has_parted = has_parted or verdict.parting is not None
        _print(loaded, name, verdict, as_json=as_json)
    return EXIT_FINDINGS if has_parted else EXIT_OK


def _print(config: "JobConfig", vhost: str, verdict: "Verdict", *, as_json: bool) -> None:
    import msgspec

    topic = config.log_topics()[vhost]
    if as_json:
        print_json({"vhost": vhost, "log": topic, **msgspec.to_builtins(verdict)})
        return
    count = verdict.end - verdict.begin
    print(f"vhost {printable(vhost)}: {count:,} records of {topic} from offset {verdict.begin}")
    compared = f"{verdict.digests} digests of the log are equal"
    print(compared + (f", up to offset {verdict.equal_to}" if verdict.digests else ""))
    if verdict.parting is not None:
        print(f"this fold {verdict.parting}" if verdict.parting.there else verdict.parting)


def _verify(
    config: "JobConfig",
    vhost: str,
    states: tuple[str | None, str | None],
    to: int | None,
    *,
    any_terms: bool,
) -> "Verdict":
    from streaming.config.clients import librdkafka_properties
    from streaming.config.shards import shard_config, terms_of
    from streaming.job_locations import checkpoint_place
    from streaming.sequencer.bodies import BodyReader
    from streaming.sequencer.log_reader import LogReader, records_between
    from streaming.sequencer.snapshots import Snapshots
    from streaming.sequencer.verify import RangeFold, verify

    properties = librdkafka_properties(config.kafka, os.environ)
    topic = config.log_topics()[vhost]
    reader = LogReader(properties, topic)
    bodies = BodyReader(LogReader(properties, topic))
    shard = shard_config(config, vhost)
    try:
        snapshots = Snapshots(checkpoint_place(config, os.environ), reader.identity(vhost))
        first, end = reader.ends()
        folds: list[RangeFold] = []
        for hint, state in zip(("--from", "--against"), states, strict=True):
            if state is None and folds:
                continue
            entries = _entries(snapshots, state, first, hint)
            terms = None if any_terms else terms_of(shard)
            folds.append(RangeFold(shard, bodies.fetch, entries, terms=terms))
        folds.sort(key=lambda each: each.fold.next_offset)
        latest = folds[-1].fold.next_offset
        if to is not None and to < latest:
            what = f"{to} is before the state at offset {latest}"
            raise typer.BadParameter(what, param_hint="--to")
        records = records_between(reader, folds[0].fold.next_offset, min(end, to or end))
        return verify(folds[0], records, folds[1] if len(folds) > 1 else None)
    finally:
        bodies.close()
        reader.close()


def _entries(
    snapshots: "Snapshots", state: str | None, first: int, hint: str
) -> dict[str, bytes] | None:
    """The state to fold on from; None for the start."""
    known = [offset for offset in snapshots.offsets() if offset >= first]
    if state is None and first and known:
        state = str(known[0])
    if state is None or state == "start":
        if first:
            what = f"the log begins at offset {first}, without its start; {_words(known)}"
            raise typer.BadParameter(what, param_hint=hint)
        return None
    found = snapshots.at(int(state)) if state.isdigit() else None
    if found is None or found.next_offset < first:
        what = f"{state}: no snapshot that can be used is there; {_words(known)}"
        raise typer.BadParameter(what, param_hint=hint)
    return found.entries


def _words(offsets: list[int]) -> str:
    return f"there are: {', '.join(map(str, offsets))}" if offsets else "there is no snapshot"
