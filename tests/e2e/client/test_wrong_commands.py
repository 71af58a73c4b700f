"""Wrong commands against a running job: one line that names the remedy, and the right status.

The list begins in tests/unit/cli/test_wrong_commands.py, with what no job is needed for.
"""

import json
import shlex
import sys

import pytest

from streaming.cli.main import main
from streaming.config import show_config

WRONG = """
    get wrok-MARK                                        | 2 | 404 NOT_FOUND | 'work-MARK'
    consume wrok-MARK --count 1                          | 2 | 404 NOT_FOUND | 'work-MARK'
    queues purge wrok-MARK                               | 2 | 404 NOT_FOUND | 'work-MARK'
    queues delete wrok-MARK                              | 2 | 404 NOT_FOUND | 'work-MARK'
    queues delete nothing-like-it                        | 2 | 404 NOT_FOUND | dlx queues list
    queues delete orders-MARK                            | 2 | 404 NOT_FOUND | an exchange
    queues delete work-MARK --if-empty                   | 2 | 406 PRECONDITION | dlx queues purge
    queues declare work-MARK -a x-max-length=5           | 2 | x-max-length | dlx policies set
    queues declare other-MARK -a x-message-ttl=-1        | 2 | x-message-ttl | 406 PRECONDITION
    queues declare amq.mine                              | 2 | 403 ACCESS_REFUSED | amq.
    exchanges delete ordrs-MARK                          | 2 | 404 NOT_FOUND | 'orders-MARK'
    exchanges delete amq.topic                           | 2 | 403 ACCESS_REFUSED | amq.topic
    exchanges declare orders-MARK                        | 2 | 406 PRECONDITION | delete it first
    exchanges declare in-MARK -a alternate-exchnge=x     | 2 | --argument | 'alternate-exchange'
    bindings declare ordrs-MARK work-MARK                | 2 | 404 NOT_FOUND | 'orders-MARK'
    bindings declare orders-MARK wrok-MARK               | 2 | 404 NOT_FOUND | 'work-MARK'
    bindings declare orders-MARK orders-MARK             | 2 | 404 NOT_FOUND | an exchange
    bindings declare amq.headers work-MARK -a x-match=al | 2 | x-match | all
    bindings delete orders-MARK work-MARK -k order.us    | 2 | 'order.us' | 'order.eu'
    bindings delete amq.fanout work-MARK                 | 2 | 'amq.fanout' | nothing is bound
    policies clear limt-MARK                             | 2 | 404 NOT_FOUND | 'limit-MARK'
    policies clear limit-MARK --operator                 | 2 | operator policy | there are none
    policies set p '(' '{"max-length": 1}'               | 2 | '(' | regular expression
    policies set p . '{"message-ttl": "x"}'              | 2 | TTL | 406 PRECONDITION
    policies set p . '{"max-length": 1}' --user clerk    | 2 | 403 ACCESS_REFUSED | --user
    permissions set clerk '(' .* .*                      | 2 | '(' | 406 PRECONDITION
    permissions clear nobody                             | 2 | 'nobody' | there
    get work-MARK --user clerk                           | 2 | 403 ACCESS_REFUSED | permissions
    get work-MARK --message 9/9/9                        | 1 | 9/9/9 | no ready copy
    ack 1.0.0 --channel nosuch-MARK                      | 2 | --channel | dlx clients channels list
    publish x -e ordrs-MARK -k k                         | 2 | 404 NOT_FOUND | 'orders-MARK'
    publish x -k work-MARK --property expiration=soon    | 2 | 406 PRECONDITION | soon
    dead-letters get 0/0/99                              | 2 | 0/0/99 | dlx dead-letters list
    definitions import conflict.json                     | 2 | x-max-length | 406 PRECONDITION
"""
"""Command | status | the place that the line names | the remedy that it names."""

ROWS = [[part.strip() for part in line.rsplit("|", 3)] for line in WRONG.strip().splitlines()]


@pytest.fixture(scope="module")
def place(running_job, shared_connection):
    """A folder with the job's configuration; a queue, an exchange and a policy of the mark m1."""
    (running_job.root / "dlx.toml").write_text(show_config(running_job.config))
    queue = {"name": "work-m1", "vhost": "/", "durable": True, "arguments": {"x-max-length": 1}}
    document = {"vhosts": [{"name": "/"}], "queues": [queue]}
    (running_job.root / "conflict.json").write_text(json.dumps(document))
    with shared_connection.channel() as channel:
        channel.declare_queue("work-m1")
        channel.declare_exchange("orders-m1", "topic")
        channel.bind_queue("work-m1", "orders-m1", "order.eu")
        channel.set_policy("limit-m1", "^nothing$", {"max-length": 1})
    shared_connection.publisher().publish("", "work-m1", b"kept").result(120)
    return running_job.root


@pytest.fixture
def dlx(place, monkeypatch, capsys):
    """A function that runs a command in that folder; returns status, stdout and stderr."""
    monkeypatch.chdir(place)

    def run(*arguments: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["dlx", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return run


@pytest.mark.parametrize(
    ("command", "status", "where", "remedy"), ROWS, ids=[row[0] for row in ROWS]
)
def test_a_wrong_command_is_one_line_that_names_the_place_and_the_remedy(
    dlx, command, status, where, remedy
):
    words = [word.replace("MARK", "m1") for word in shlex.split(command)] + ["--timeout", "120"]

    code, out, err = dlx(*words)

    assert (code, out) == (int(status), "")
    [line] = err.splitlines()
    assert where.replace("MARK", "m1") in line
    assert remedy.replace("MARK", "m1") in line


def test_nothing_of_that_changed_anything(shared_connection):
    with shared_connection.channel() as channel:
        document = channel.export_definitions()
        depth = channel.queue_depth("work-m1")

    assert [each["name"] for each in document["queues"]] == ["work-m1"]
    assert [each["routing_key"] for each in document["bindings"]] == ["order.eu"]
    assert [each["name"] for each in document["policies"]] == ["limit-m1"]
    assert depth == 1
