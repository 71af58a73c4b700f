"""`dlx spark`: Spark's own shells on the tables of a job."""

from streaming.cli.command_group import command_group
from streaming.cli.tables.pyspark_session import pyspark
from streaming.cli.tables.sql import sql

app = command_group(
    "spark",
    "Open Spark's SQL shell, or a session in Python, on the tables.",
    'dlx spark sql -e "SELECT count(*) FROM dead_letters"',
    "dlx spark pyspark deaths.py",
)
app.command()(sql)
app.command()(pyspark)
