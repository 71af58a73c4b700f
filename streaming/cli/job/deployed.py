"""`dlx deployed`: notes a deployment in a running job, for a script that deploys."""

from typing import Annotated

import typer

from streaming.cli.exit_codes import EXIT_OK
from streaming.cli.options import JobOptions, job_options


@job_options
def deployed(
    service: Annotated[
        str, typer.Argument(metavar="SERVICE", help="What was deployed, such as payments-worker.")
    ],
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Such as 2.4.1.")],
    *,
    queue: Annotated[
        list[str] | None,
        typer.Option(
            "--queue", metavar="NAME", help="A queue that it works on. Default: it may be any."
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why, for whoever asks later.")
    ] = None,
    job: JobOptions,
) -> int:
    """Note that a version of a service was deployed.

    The console, `dlx why` and the audit then name it before what died after it. Nothing else
    changes. Call it at the end of a deployment, also of one that goes back to an earlier version.
    """
    for place, text in (("SERVICE", service), ("VERSION", version)):
        if not text.strip() or not text.isprintable():
            raise typer.BadParameter("must be text that can be read", param_hint=place)
    with job.connect() as connection:
        connection.channel().deployed(service, version, queue or (), reason)
    concerned = f" for {', '.join(map(repr, queue))}" if queue else ""
    print(f"{service} {version} is noted as deployed{concerned} in vhost {job.vhost!r}")
    return EXIT_OK
