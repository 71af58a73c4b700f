"""The words of the tables that pages show: kinds of events, reasons, outcomes, changes, fates.

In English they are shown as they are stored. The filter `word` translates them; a test compares
them with what the broker writes.
"""

from typing import Final

from topology.sentences import to_say

KINDS: Final = (
    *(to_say("enqueued"), to_say("delivered"), to_say("consumed"), to_say("acked")),
    *(to_say("requeued"), to_say("died"), to_say("held"), to_say("purged"), to_say("deleted")),
    *(to_say("rerouted"), to_say("refused"), to_say("unroutable"), to_say("returned")),
    *(to_say("publish_error"), to_say("command_error"), to_say("topology"), to_say("channel")),
    *(to_say("warning"), to_say("settle_missed"), to_say("redriven"), to_say("discarded")),
    *(to_say("republished"), to_say("skipped"), to_say("redrive"), to_say("edited")),
    to_say("void"),
)
"""What an event says."""

REASONS: Final = (
    *(to_say("rejected"), to_say("expired"), to_say("maxlen"), to_say("delivery_limit")),
    to_say("orphaned"),
)
"""Why a message died."""

OUTCOMES: Final = (
    *(to_say("dead_lettered"), to_say("no_exchange"), to_say("no_route"), to_say("cycle")),
    *(to_say("lost"), to_say("dropped")),
    *(to_say("rerouted_before"), to_say("cascade_limit"), to_say("strategy_changed")),
)
"""What became of its letter; `refused` is a kind, too."""

CHANGES: Final = (
    *(to_say("exchange declared"), to_say("exchange deleted"), to_say("queue declared")),
    *(to_say("queue deleted"), to_say("bound"), to_say("unbound"), to_say("deployed")),
    *(to_say("policy set"), to_say("policy cleared")),
    *(to_say("operator policy set"), to_say("operator policy cleared")),
    *(to_say("permissions set"), to_say("permissions cleared")),
    *(to_say("topic permissions set"), to_say("topic permissions cleared")),
    *(to_say("limits set"), to_say("parameter set"), to_say("parameter deleted")),
    *(to_say("user set"), to_say("user deleted"), to_say("vhost set"), to_say("vhost deleted")),
    *(to_say("global parameter set"), to_say("global parameter deleted")),
    *(to_say("erased"), to_say("changed")),
)
"""What was done to the topology or the rights, with blanks, and an erasure."""

OF_REDRIVES: Final = (
    *(to_say("requested"), to_say("running"), to_say("paused"), to_say("resumed")),
    *(to_say("stopped"), to_say("cancelled"), to_say("finished"), to_say("waiting")),
    *(to_say("moved"), to_say("parked"), to_say("discard"), to_say("restore")),
)
"""How far a redrive is, and what became of its letters."""

SKIPS: Final = (
    *(to_say("queue_gone"), to_say("not_ready"), to_say("target_gone"), to_say("cap")),
    *(to_say("not_stored"), to_say("in_queue"), to_say("too_large")),
)
"""Why a letter of a redrive stays where it is."""

STATES: Final = (to_say("ready"), to_say("unacked"), to_say("published"))
"""Where a copy is, and how a first one came there."""

OBJECTS: Final = (
    *(to_say("exchange"), to_say("queue"), to_say("binding"), to_say("policy")),
    *(to_say("operator policy"), to_say("permission"), to_say("topic permission")),
    *(to_say("vhost limits"), to_say("user"), to_say("vhost")),
    *(to_say("parameter"), to_say("global parameter")),
    *(to_say("create"), to_say("replace"), to_say("conflict"), to_say("absent")),
    *(to_say("added"), to_say("removed")),
)
"""What differs between two sets of definitions, and how."""
