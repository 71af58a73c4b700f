"""`dlx messages`: the commands about messages as one group; each is a command of its own too."""

import typer

from streaming.cli.job import deliveries
from streaming.cli.job.publish import publish

app = typer.Typer(
    name="messages",
    help="Publish, get, consume and settle messages of a running job.",
    epilog="Examples:\n\ndlx messages publish hello --routing-key work\n\n"
    "dlx messages get work\n\ndlx messages ack 1.0.0\n\n"
    "dlx messages consume work -- ./handle.sh",
    no_args_is_help=True,
    rich_markup_mode=None,
)

app.command()(publish)
app.command()(deliveries.get)
app.command()(deliveries.consume)
app.command()(deliveries.ack)
app.command()(deliveries.reject)
