"""`dlx definitions`: exports, imports and compares the topology of a running job."""

import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from streaming.cli import options
from streaming.cli.command_group import command_group
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.options import JobOptions, job_options_without_vhost
from streaming.cli.output import AsJson, print_json, printable
from streaming.cli.topology.definitions_file import load, refuse
from topology.declarations import BindingEnd, Definitions
from topology.errors import InvalidTopologyError, Problem
from topology.sentences import plain

if TYPE_CHECKING:
    from topology.definitions.change_plan import Change
    from topology.definitions.load import Examined

app = command_group(
    "definitions",
    "Export, import, compare and replay the topology of a job.",
    "dlx definitions export > live.json",
    "dlx definitions plan new.json",
    "dlx definitions plan live.json new.json",
    "dlx definitions import new.json",
    "dlx definitions replay --since yesterday --definitions new.json",
)

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", exists=True, dir_okay=False, help="A definitions.json from RabbitMQ."
    ),
]
_MARKS = {"create": "+", "replace": "~", "same": "=", "conflict": "!", "absent": "-"}


@app.command()
@job_options_without_vhost
def export(
    *,
    vhost: options.VhostFilter = None,
    job: JobOptions,
) -> int:
    """Print the topology as a definitions document that RabbitMQ can import."""
    document: dict[str, Any] = {}
    for name in [vhost] if vhost is not None else _vhosts_of(job.file):
        for section, objects in _live(job, name).items():
            document.setdefault(section, []).extend(objects)
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    return EXIT_OK


@app.command("import")
@job_options_without_vhost
def import_(
    file: File,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change, as `plan` does.")
    ] = False,
    vhost: options.VhostFilter = None,
    job: JobOptions,
) -> int:
    """Declare the objects of a file: for each vhost all of them, or none.

    Vhosts that the job does not serve are listed and skipped.
    """
    if dry_run:
        return _plan(_wanted(file, vhost, job.file), _asking(job), as_json=False)
    for name, wanted in _wanted(file, vhost, job.file).items():
        wanted.refuse({"unknown-name"})  # the job may have it
        with job.connect(name) as connection:
            imported = connection.channel().import_definitions(wanted.part)
        print(f"vhost {name!r}: {imported.objects} objects imported")
        for problem in wanted.examine().loaded.skipped:
            if problem.vhost in {None, name}:
                print(printable(f"{file}: skipped: {problem}"))
    return EXIT_OK


@app.command()
@job_options_without_vhost
def plan(
    file: File,
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            exists=True,
            dir_okay=False,
            help="Compare the first file with this one, without a job: what would importing this "
            "one change, if the first one were declared?",
        ),
    ] = None,
    *,
    vhost: options.VhostFilter = None,
    as_json: AsJson = False,
    job: JobOptions,
) -> int:
    """Show what `import` would do to each object of a file, without changing anything.

    + creates, ~ replaces, = keeps. ! exists with other properties, so the import would be refused.
    - exists and is not in the file: an import never removes anything, so it stays. Items that an
    import would skip are listed as well, each with its file.

    Exit status: 1 if the import would be refused.
    """
    if other is not None:
        loaded = load(file)
        declared = loaded.vhosts
        wanted = _wanted(other, vhost, None)
        for name in declared if vhost is None else ():
            wanted.setdefault(name, _Wanted(other, name, {}, listed=True))
        status = _plan(wanted, lambda name: declared.get(name, Definitions()), as_json=as_json)
        for problem in loaded.skipped:
            if vhost is None or problem.vhost in {None, vhost}:
                _print_skipped(file, problem.vhost or next(iter(wanted)), problem, as_json=as_json)
        return status
    return _plan(_wanted(file, vhost, job.file), _asking(job), as_json=as_json)


def _plan(
    parts: "dict[str, _Wanted]", live_in: Callable[[str], Definitions], *, as_json: bool
) -> int:
    """Print the changes of each vhost."""
    from topology.definitions.change_plan import plan_import

    conflicts = 0
    told: set[Problem] = set()
    for name, wanted in parts.items():
        wanted.refuse({"unknown-name"})  # the vhost may have it
        live = live_in(name)
        existing: list[BindingEnd] = [
            *(("exchange", each.name) for each in live.exchanges),
            *(("queue", each.name) for each in live.queues),
        ]
        found = wanted.examine(existing)
        refuse(wanted.file, [each for each in found.problems if each.vhost in {None, name}])
        for change in plan_import(live, found.loaded.vhosts.get(name, Definitions()), name):
            conflicts += change.effect == "conflict"
            _print_change(name, change, as_json=as_json)
        for problem in found.loaded.skipped:
            if problem.vhost not in {None, name} or problem in told:
                continue
            told.add(problem)
            _print_skipped(wanted.file, name, problem, as_json=as_json)
    return EXIT_FINDINGS if conflicts else EXIT_OK


def _print_skipped(file: Path, vhost: str, problem: Problem, *, as_json: bool) -> None:
    from topology.definitions.change_plan import Change

    if as_json:
        skipped = Change("skipped", problem.code, str(problem.where), str(problem.what))
        print_json({"vhost": vhost, **msgspec.to_builtins(skipped), "file": str(file)})
    else:
        print(printable(f"{file}: skipped: {problem}"))


def _print_change(vhost: str, change: "Change", *, as_json: bool) -> None:
    if as_json:
        print_json({"vhost": vhost, **msgspec.to_builtins(change, enc_hook=plain)})
        return
    detail = f": {change.detail}" if change.detail else ""
    quoted = change.name if change.kind == "binding" else repr(change.name)
    print(f"{_MARKS[change.effect]} {vhost} {change.kind} {quoted}{detail}")


def _live(job: JobOptions, vhost: str) -> dict[str, Any]:
    with job.connect(vhost) as connection:
        return connection.channel().export_definitions()


def _asking(job: JobOptions) -> Callable[[str], Definitions]:
    """Return a function that asks the job what is declared in a vhost."""
    from topology.definitions.load import load_definitions

    def live_in(vhost: str) -> Definitions:
        document = _live(job, vhost)
        return load_definitions(document, default_vhost=vhost).vhosts[vhost]

    return live_in


def _vhosts_of(config: Path) -> list[str]:
    from streaming.config import read_config

    return list(read_config(config).vhosts)


class _Wanted(NamedTuple):
    """What a file has for one vhost; paths in messages are those of the whole file."""

    file: Path
    vhost: str
    document: dict[str, Any]
    listed: bool

    @property
    def part(self) -> dict[str, Any]:
        """The part of the document that concerns the vhost."""
        from topology.definitions.load import part_of

        return part_of(self.document, self.vhost, single=not self.listed)

    def examine(self, existing: "Iterable[BindingEnd]" = ()) -> "Examined":
        """Read the document; bindings may name what is `existing`."""
        from topology.definitions.load import examine

        return examine(self.document, default_vhost=self.vhost, existing={self.vhost: existing})

    def refuse(self, but: Collection[str]) -> None:
        """Raise the problems of the vhost, except those with these codes.

        Raises:
            InvalidTopologyError: there are some.
        """
        problems = self.examine().problems
        refuse(
            self.file,
            [
                each
                for each in problems
                if each.vhost in {None, self.vhost} and each.code not in but
            ],
        )


def _wanted(file: Path, vhost: str | None, config: Path | None) -> dict[str, _Wanted]:
    """What a file has for each vhost of the job; without a job, for each of its own vhosts.

    Raises:
        InvalidTopologyError: the file is not a JSON object, or has nothing for the job.
    """
    try:
        document = msgspec.json.decode(file.read_bytes())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        what = f"is not JSON: {error}; write the file as JSON in UTF-8"
        raise InvalidTopologyError([Problem(str(file), what)]) from None
    if not isinstance(document, dict):
        raise InvalidTopologyError([Problem(str(file), "is not a definitions document")])
    section = document.get("vhosts")
    items = section if isinstance(section, list) else []
    vhosts = [one.get("name") for one in items if isinstance(one, dict)]
    listed = [name for name in vhosts if isinstance(name, str)]
    served = listed or ["/"] if config is None else _vhosts_of(config)
    if vhost is not None:
        chosen = [vhost]
    elif listed:
        chosen = [name for name in served if name in listed]
        for name in listed:
            if name not in served:
                text = f"{file}: skipped: vhost {name!r} is not one of the job's ({config})"
                print(printable(text), file=sys.stderr)
    else:
        chosen = served[:1] if len(served) == 1 else []
    if not chosen:
        of_any = _Wanted(file, served[0], document, bool(listed)).examine().problems
        refuse(file, [each for each in of_any if each.code != "unknown-name"])
        what = "the file names none of the job's vhosts: choose one with --vhost"
        raise InvalidTopologyError([Problem(str(file), what)])
    return {name: _Wanted(file, name, document, bool(listed)) for name in chosen}
