"""`dlx definitions`: the topology of a running job, out, in, and compared."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from streaming.cli.connection_options import (
    DEFAULT_CONFIG,
    DEFAULT_TIMEOUT_S,
    DEFAULT_USER,
    ConfigFile,
    Timeout,
    User,
    connected,
)
from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_OK
from streaming.cli.table_options import AsJson
from topology.errors import InvalidTopologyError, Problem

if TYPE_CHECKING:
    from topology.definitions.import_plan import Change

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
        metavar="FILE", exists=True, dir_okay=False, help="A definitions.json as RabbitMQ exports."
    ),
]
OneVhost = Annotated[str | None, typer.Option("--vhost", metavar="NAME", help="Only this vhost.")]
_MARKS = {"create": "+", "replace": "~", "same": "=", "conflict": "!"}


@app.command()
def export(
    *,
    vhost: OneVhost = None,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Print what is declared, as a definitions document that RabbitMQ imports."""
    document: dict[str, Any] = {}
    for name in [vhost] if vhost is not None else _vhosts_of(config):
        for section, objects in _live(config, user, name, timeout).items():
            document.setdefault(section, []).extend(objects)
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    return EXIT_OK


@app.command("import")
def import_(
    file: File,
    *,
    vhost: OneVhost = None,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Declare what a file holds: of each vhost all of it, or nothing.

    Vhosts of the file that the job does not serve are named and left out.
    """
    left_out: dict[str, None] = {}
    for name, part in _parts(file, vhost, config).items():
        with connected(config, user, name, timeout) as connection:
            imported = connection.channel().import_definitions(part)
        left_out |= dict.fromkeys(imported.unsupported)
        print(f"vhost {name!r}: {imported.objects} objects imported")
    for line in left_out:
        print(f"left out: {line}")
    return EXIT_OK


@app.command()
def plan(
    file: File,
    *,
    vhost: OneVhost = None,
    as_json: AsJson = False,
    config: ConfigFile = DEFAULT_CONFIG,
    user: User = DEFAULT_USER,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> int:
    """Show what `import` would do to each object of a file; nothing is changed.

    + is new, ~ is replaced, = is there already, ! exists with other properties: the import would be
    refused. Nothing is ever removed by an import. Exit status: 1 if it would be refused.
    """
    from topology.declarations import BindingEnd
    from topology.definitions.import_plan import plan_import
    from topology.definitions.load import load_definitions

    conflicts = 0
    for name, part in _parts(file, vhost, config).items():
        exported = load_definitions(_live(config, user, name, timeout), default_vhost=name)
        live = exported.vhosts[name]
        existing: list[BindingEnd] = [
            *(("exchange", each.name) for each in live.exchanges),
            *(("queue", each.name) for each in live.queues),
        ]
        wanted = load_definitions(part, default_vhost=name, existing=existing).vhosts[name]
        for change in plan_import(live, wanted, name):
            conflicts += change.effect == "conflict"
            _show(name, change, as_json=as_json)
    return EXIT_FINDINGS if conflicts else EXIT_OK


def _show(vhost: str, change: "Change", *, as_json: bool) -> None:
    from streaming.cli.output import print_json

    if as_json:
        print_json({"vhost": vhost, **msgspec.to_builtins(change)})
        return
    detail = f": {change.detail}" if change.detail else ""
    quoted = change.name if change.kind == "binding" else repr(change.name)
    print(f"{_MARKS[change.effect]} {vhost} {change.kind} {quoted}{detail}")


def _live(config: Path, user: str, vhost: str, timeout_s: float) -> dict[str, Any]:
    with connected(config, user, vhost, timeout_s) as connection:
        return connection.channel().export_definitions()


def _vhosts_of(config: Path) -> list[str]:
    from streaming.config import read_config

    return list(read_config(config).vhosts)


def _parts(file: Path, vhost: str | None, config: Path) -> dict[str, dict[str, Any]]:
    """Vhost of the job -> what the file holds for it.

    Raises:
        InvalidTopologyError: the file is no JSON object, or holds nothing for the job.
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
            print(f"left out: vhost {name!r} is not one of the job's ({config})")
    if vhost is not None:
        chosen = [vhost]
    elif listed:
        chosen = [name for name in served if name in listed]
    else:
        chosen = served[:1] if len(served) == 1 else []
    if not chosen:
        what = "name a vhost with --vhost: the file has none of the job's, or does not say which"
        raise InvalidTopologyError([Problem(str(file), what)])
    return {name: part_of(document, name, single=not listed) for name in chosen}
