"""`dlx definitions`: exports, imports and compares the topology of a running job."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from streaming.cli import options
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.options import ConfigFile
from streaming.cli.output import AsJson, print_json
from topology.errors import InvalidTopologyError, Problem

if TYPE_CHECKING:
    from topology.definitions.change_plan import Change

app = typer.Typer(
    name="definitions",
    help="Export, import and compare the topology of a running job.",
    epilog="Examples:\n\ndlx definitions export > live.json\n\ndlx definitions plan new.json\n\n"
    "dlx definitions import new.json",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", exists=True, dir_okay=False, help="A definitions.json from RabbitMQ."
    ),
]
_MARKS = {"create": "+", "replace": "~", "same": "=", "conflict": "!"}


@app.command()
def export(
    *,
    vhost: options.VhostFilter = None,
    config: ConfigFile = None,
    user: options.User = options.DEFAULT_USER,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
    require_job: options.RequireJob = False,
) -> int:
    """Print the topology as a definitions document that RabbitMQ can import."""
    document: dict[str, Any] = {}
    job = options.find_config(config)
    for name in [vhost] if vhost is not None else _vhosts_of(job):
        for section, objects in _live(job, user, name, timeout, require_job=require_job).items():
            document.setdefault(section, []).extend(objects)
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    return EXIT_OK


@app.command("import")
def import_(
    file: File,
    *,
    vhost: options.VhostFilter = None,
    config: ConfigFile = None,
    user: options.User = options.DEFAULT_USER,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
    require_job: options.RequireJob = False,
) -> int:
    """Declare the objects of a file: for each vhost all of them, or none.

    Vhosts that the job does not serve are listed and skipped.
    """
    skipped: dict[str, None] = {}
    job = options.find_config(config)
    for name, part in _parts(file, vhost, job).items():
        with options.connect(job, user, name, timeout, require_job=require_job) as connection:
            imported = connection.channel().import_definitions(part)
        skipped |= dict.fromkeys(imported.skipped)
        print(f"vhost {name!r}: {imported.objects} objects imported")
    for line in skipped:
        print(f"skipped: {line}")
    return EXIT_OK


@app.command()
def plan(
    file: File,
    *,
    vhost: options.VhostFilter = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    user: options.User = options.DEFAULT_USER,
    timeout: options.Timeout = options.DEFAULT_TIMEOUT_S,
    require_job: options.RequireJob = False,
) -> int:
    """Show what `import` would do to each object of a file, without changing anything.

    + creates, ~ replaces, = keeps. ! exists with other properties, so the import would be refused.
    An import never removes anything.

    Exit status: 1 if the import would be refused.
    """
    from topology.declarations import BindingEnd
    from topology.definitions.change_plan import plan_import
    from topology.definitions.load import load_definitions

    conflicts = 0
    job = options.find_config(config)
    for name, part in _parts(file, vhost, job).items():
        exported = load_definitions(
            _live(job, user, name, timeout, require_job=require_job), default_vhost=name
        )
        live = exported.vhosts[name]
        existing: list[BindingEnd] = [
            *(("exchange", each.name) for each in live.exchanges),
            *(("queue", each.name) for each in live.queues),
        ]
        wanted = load_definitions(part, default_vhost=name, existing=existing).vhosts[name]
        for change in plan_import(live, wanted, name):
            conflicts += change.effect == "conflict"
            _print_change(name, change, as_json=as_json)
    return EXIT_FINDINGS if conflicts else EXIT_OK


def _print_change(vhost: str, change: "Change", *, as_json: bool) -> None:
    if as_json:
        print_json({"vhost": vhost, **msgspec.to_builtins(change)})
        return
    detail = f": {change.detail}" if change.detail else ""
    quoted = change.name if change.kind == "binding" else repr(change.name)
    print(f"{_MARKS[change.effect]} {vhost} {change.kind} {quoted}{detail}")


def _live(
    config: Path, user: str, vhost: str, timeout_s: float, *, require_job: bool
) -> dict[str, Any]:
    with options.connect(config, user, vhost, timeout_s, require_job=require_job) as connection:
        return connection.channel().export_definitions()


def _vhosts_of(config: Path) -> list[str]:
    from streaming.config import read_config

    return list(read_config(config).vhosts)


def _parts(file: Path, vhost: str | None, config: Path) -> dict[str, dict[str, Any]]:
    """The parts of a file by the vhost of the job that each is for.

    Raises:
        InvalidTopologyError: the file is not a JSON object, or has nothing for the job.
    """
    from topology.definitions.load import part_of

    try:
        document = msgspec.json.decode(file.read_bytes())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidTopologyError([Problem(str(file), f"is not JSON: {error}")]) from None
    if not isinstance(document, dict):
        raise InvalidTopologyError([Problem(str(file), "is not a definitions document")])
    served = _vhosts_of(config)
    listed = [one.get("name") for one in document.get("vhosts") or [] if isinstance(one, dict)]
    for name in listed:
        if name not in served and vhost is None:
            print(f"skipped: vhost {name!r} is not one of the job's ({config})")
    if vhost is not None:
        chosen = [vhost]
    elif listed:
        chosen = [name for name in served if name in listed]
    else:
        chosen = served[:1] if len(served) == 1 else []
    if not chosen:
        what = "the file names none of the job's vhosts: choose one with --vhost"
        raise InvalidTopologyError([Problem(str(file), what)])
    return {name: part_of(document, name, single=not listed) for name in chosen}
