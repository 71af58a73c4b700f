"""RabbitMQ queues and dead letters as a stream; `docs/contributing.md` says where things are."""
