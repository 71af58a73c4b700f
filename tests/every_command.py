"""Every command at least once, with every kind of member."""

from decimal import Decimal
from typing import Final

from streaming.broker import commands
from streaming.broker.redrive_letters import Letter, RedriveOptions, StoredLetter, Target
from topology.declarations import Binding, Exchange, Policy, Queue
from topology.values import Timestamp

STORED = StoredLetter((1, 0, 42), 3, 0, '{"h":1}', ())

COMMANDS: Final[list[commands.Command]] = [
    commands.Get(queue="q", count=3, label="g", auto_ack=True, channel="c"),
    commands.Get(queue="q", reply_id="7"),
    commands.Get(queue="q", message="1/0/42"),
    commands.Consume(queue="q", label="c", prefetch=2, arguments={"x-priority": 1}),
    commands.Qos(prefetch=3, is_global=True, channel="c"),
    commands.Flow(active=False, channel="c"),
    commands.Cancel(label="c"),
    commands.Ack(refs=("g/0", "g/1"), multiple=True),
    commands.Reject(refs=("g/0",), requeue=True, channel="c"),
    commands.Nack(refs=(), requeue=True, multiple=True),
    commands.Settle(tag=3, last=5, outcome="requeue", channel="c", reason="r"),
    commands.Recover(channel="c"),
    commands.OpenChannel(channel="c", lease_ms=5),
    commands.Renew(channel="c"),
    commands.CloseChannel(channel="c"),
    commands.OpenChannel(channel="c", connection="n"),
    commands.CloseConnection(connection="n"),
    commands.Depth(queue="q"),
    commands.Purge(queue="q"),
    commands.DeleteQueue(queue="q", if_unused=True, if_empty=True),
    commands.DeleteExchange(exchange="e", if_unused=True),
    commands.DeclareQueue(
        queue=Queue(
            name="q", exclusive=True, arguments={"a": b"\xff", "t": [Timestamp(5), {"n": 2**62}]}
        )
    ),
    commands.DeclareExchange(exchange=Exchange(name="e", type="topic", internal=True)),
    commands.Bind(
        binding=Binding(source="e", destination="q", arguments={"n": None, "d": Decimal("1.5")})
    ),
    commands.Unbind(binding=Binding(source="e", destination="f", destination_type="exchange")),
    commands.SetPolicy(policy=Policy(name="p", pattern="^q", definition={"max-length": 1})),
    commands.SetOperatorPolicy(
        policy=Policy(name="p", pattern="", definition={"expires": 9}, apply_to="queues")
    ),
    commands.ClearPolicy(name="p"),
    commands.ClearOperatorPolicy(name="p"),
    commands.SetPermissions(user="u", configure="", write=".*", read="q"),
    commands.ClearPermissions(user="u"),
    commands.SetTopicPermissions(user="u", exchange="x", write="^{username}", read=""),
    commands.ClearTopicPermissions(user="u", exchange="x"),
    commands.SetVhostLimit(limit="max-queues", value=-1),
    commands.ClearVhostLimit(limit="max-connections"),
    commands.SetParameter(component="user", name="u", value='{"tags":[]}', secret=None),
    commands.Deployed(service="s", version="1.2", queues=("q", "r"), reason="why"),
    commands.Deployed(service="s", version="1.3"),
    commands.ImportDefinitions(definitions={"queues": [{"name": "q"}]}),
    commands.ExportDefinitions(first=3),
    commands.Check(
        steps=(
            commands.CheckedPublish(exchange="e", expiration="x", headers={"CC": b"\xff"}),
            commands.CheckedPublish(),
            commands.Ack(refs=("g/0", "1.0.0"), multiple=True, channel="c"),
            commands.Reject(refs=("g/1",), requeue=True),
            commands.Nack(refs=(), requeue=True),
        )
    ),
    commands.Redrive(
        id="r",
        reason="fixed",
        seal="s",
        total=2,
        letters=(
            Letter(0, 7, "q"),
            Letter(0, 9, "q", Target("w", "", ("w",)), 5, STORED),
        ),
        options=RedriveOptions(rate=5),
    ),
    commands.ControlRedrive(id="r", action="pause", reason="wait"),
    commands.RedriveVerdict(id="r", round=2, verdict="share", lane=1, share=3),
    commands.Tick(),
]
