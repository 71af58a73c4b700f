# ruff: noqa: INP001 (a script, not a module of a package)
"""Fill the image's cache (XDG_CACHE_HOME) with the jars of Spark, so that a start needs no network.

At run time the cache is only read.
"""

from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.jvm.java import find_java, spark_java_home

if __name__ == "__main__":
    resolve_jars("spark")
    resolve_jars("s3")  # the profile cluster of docker-compose.yml
    spark_java_home(find_java())
