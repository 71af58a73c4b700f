"""A real RabbitMQ beside ours: nodes of several versions, and a runner that replays scenarios."""
