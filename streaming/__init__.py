"""RabbitMQ queues and dead letters as a stream; `docs/contributing.md` says where things are."""

import os

if os.environ.get("DLX_COMPILED"):
    from streaming.compiled import use_if_asked

    use_if_asked()
