"""RabbitMQ's management API over a running front: `GET /api/queues` and its relatives.

    HTTP --> routing (which resource) --> access (who, may they) --> a handler --> the front
                                                                        |
                        JSON <-- listing (page, sort, columns) <--------+

    port.py        what the API needs of a front
    memory.py      a broker in memory as such a front
    sessions.py    a user's short-lived channel: publish and get over HTTP
    counting.py    counts and rates, sampled every five seconds
    resources/     the handlers, by subject

Codes, bodies and texts are those of RabbitMQ 4.0, which were asked for them.
"""
