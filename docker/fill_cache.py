# ruff: noqa: INP001 (a script of the image's, no module of a package)
"""Put what Spark needs besides Python packages into the image, so that a start needs no network.

The cache that this fills is the image's own (XDG_CACHE_HOME); at run time it is only read.
"""

from streaming.embedded.jvm.jars import resolve_jars
from streaming.embedded.jvm.java import find_java, spark_java_home

if __name__ == "__main__":
    resolve_jars("spark")
    spark_java_home(find_java())
