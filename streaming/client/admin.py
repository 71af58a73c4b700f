"""What a channel declares and administers: queues, exchanges, policies, permissions, definitions.

A definitions document is imported in one command and exported in pages.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from streaming.broker.redrive_letters import RedriveOptions
from streaming.broker.redrives.records import RECEIVING
from streaming.client._transport.link import Link
from streaming.client._versions import publish_versions
from streaming.client._wire import arguments_document
from streaming.client.errors import ClientError
from streaming.protocol.definitions_packing import write_definitions
from streaming.protocol.sealed_plan import SealedPlan

logger = logging.getLogger("dlx.client")

SECTIONS = ("vhosts", "permissions", "parameters", "policies", "exchanges", "queues", "bindings")
MAX_EXPORT_ATTEMPTS = 5

IMPORT_WAIT_S = 5.0
IMPORT_WAIT_S_PER_MB = 10.0
"""How much longer than for other commands to wait while the job is alive. An idle job needs half a
second per megabyte of definitions."""


Arguments = Mapping[str, Any]


class QueueState(NamedTuple):
    """A declared queue.

    Attributes:
        queue: its name; the broker chooses one if none was given.
        ready: how many messages are ready.
        consumers: how many consumers it has.
    """

    queue: str
    ready: int
    consumers: int


class ImportResult(NamedTuple):
    """What an import did.

    Attributes:
        objects: how many objects the document declares.
        skipped: parts of the document that are not supported.
    """

    objects: int
    skipped: tuple[str, ...]


class RedriveState(NamedTuple):
    """A redrive, as far as the broker has come with it.

    Attributes:
        id: names it for `control_redrive` and `dlx redrives show`.
        status: `receiving`, `running`, `paused`, `stopped`, `finished` or `cancelled`.
        total: the letters of its sealed plan.
        moved, skipped, parked: letters that moved; that had changed; that had been redriven too
            often.
    """

    id: str
    status: str
    total: int
    moved: int
    skipped: int
    parked: int


class Administration:
    """Declares and administers on one channel, with the methods of `Channel`.

    Args:
        request: sends a command by its op and members, and waits for the answer.
        lease_ms: the lease of the channel, if a declaration opens it.
        link: publishes the new versions of edited letters.
        channel: the name of the channel.
    """

    def __init__(
        self, request: Callable[..., dict[str, Any]], lease_ms: int, link: Link, channel: str
    ) -> None:
        self._request = request
        self._channel = channel
        self._lease_ms = lease_ms
        self._link = link

    # -- queues

    def declare_queue(
        self,
        queue: str = "",
        *,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
        passive: bool = False,
    ) -> QueueState:
        """Declare a queue, or with `passive` only check that it exists.

        Args:
            queue: its name; the broker chooses one if it is empty.
            arguments: such as `{"x-dead-letter-exchange": "dlx"}`.

        Raises:
            PreconditionFailedError: it exists with other properties (R-DEF-3).
            NotFoundError: with `passive`, it does not exist.
        """
        declaration = {
            "name": queue,
            "durable": durable,
            "exclusive": exclusive,
            "auto_delete": auto_delete,
            "arguments": arguments_document(arguments),
        }
        lease = {"lease_ms": self._lease_ms} if exclusive else {}
        answer = self._request("declare_queue", queue=declaration, passive=passive, **lease)
        return QueueState(answer["queue"], answer["ready"], answer["consumers"])

    def delete_queue(self, queue: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue; deleting a missing one is not an error.

        Returns:
            How many messages were ready.

        Raises:
            PreconditionFailedError: it is in use or not empty, and the option forbids that.
        """
        answer = self._request("delete_queue", queue=queue, if_unused=if_unused, if_empty=if_empty)
        return int(answer["deleted_ready"])

    def purge_queue(self, queue: str) -> int:
        """Remove all ready messages without dead-lettering them (R-GONE-1); return how many.

        Raises:
            NotFoundError: the queue does not exist.
        """
        return int(self._request("purge", queue=queue)["purged"])

    def queue_depth(self, queue: str) -> int:
        """Return how many messages are ready.

        Raises:
            NotFoundError: the queue does not exist.
        """
        return int(self._request("depth", queue=queue)["ready"])

    # -- redrives

    def approve_redrive(
        self, plan: SealedPlan, reason: str, options: RedriveOptions | None = None
    ) -> RedriveState:
        """Approve a sealed plan: the broker moves its letters, each at most once.

        The redrive goes on without this client. Approving the same plan again moves nothing.

        Args:
            plan: see `streaming.protocol.sealed_plan.read_plan`.
            reason: why, for everyone who asks later.
            options: how fast, and when to stop; None: as the plan says.

        Raises:
            AccessRefusedError: the user may not get from a queue of the letters, not publish to
                their target, or not edit them.
            PreconditionFailedError: another plan has this id.
        """
        answer: dict[str, Any] = {}
        *commands, last = plan.commands(reason, options)
        for command in commands:
            answer = self._request("redrive", **command)
        if plan.edited and answer.get("status", RECEIVING) == RECEIVING:
            publish_versions(self._link, plan, self._channel)
        answer = self._request("redrive", **last)
        return RedriveState(plan.id, **answer)

    def control_redrive(self, redrive_id: str, action: str, reason: str) -> RedriveState:
        """Pause, resume or cancel a redrive, or ask for its status; `action` is the word.

        Raises:
            NotFoundError: there is no such redrive.
            AccessRefusedError: another user approved it, and this one is no administrator.
        """
        answer = self._request("control_redrive", id=redrive_id, action=action, reason=reason)
        return RedriveState(redrive_id, **answer)

    # -- exchanges and bindings

    def declare_exchange(
        self,
        exchange: str,
        exchange_type: str = "direct",
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
        passive: bool = False,
    ) -> None:
        """Declare an exchange, or with `passive` only check that it exists.

        Args:
            exchange_type: direct, fanout, topic or headers.
            arguments: such as `{"alternate-exchange": "unrouted"}`.

        Raises:
            PreconditionFailedError: it exists with other properties.
            NotFoundError: with `passive`, it does not exist.
        """
        declaration = {
            "name": exchange,
            "type": exchange_type,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": arguments_document(arguments),
        }
        self._request("declare_exchange", exchange=declaration, passive=passive)

    def delete_exchange(self, exchange: str, *, if_unused: bool = False) -> None:
        """Delete an exchange; deleting a missing one is not an error.

        Raises:
            PreconditionFailedError: it has bindings, and `if_unused` forbids that.
        """
        self._request("delete_exchange", exchange=exchange, if_unused=if_unused)

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> None:
        """Bind a queue to an exchange.

        Raises:
            NotFoundError: the queue or the exchange does not exist.
        """
        self._bind("bind", exchange, "queue", queue, routing_key, arguments)

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Arguments | None = None
    ) -> None:
        """Remove a binding of a queue; removing a missing one is not an error."""
        self._bind("unbind", exchange, "queue", queue, routing_key, arguments)

    def bind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        arguments: Arguments | None = None,
    ) -> None:
        """Bind the exchange `destination` to the exchange `source`.

        Raises:
            NotFoundError: one of them does not exist.
        """
        self._bind("bind", source, "exchange", destination, routing_key, arguments)

    def unbind_exchange(
        self,
        destination: str,
        source: str,
        routing_key: str = "",
        arguments: Arguments | None = None,
    ) -> None:
        """Remove a binding of an exchange; removing a missing one is not an error."""
        self._bind("unbind", source, "exchange", destination, routing_key, arguments)

    # -- for administrators: other users get AccessRefusedError

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: Arguments,
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> None:
        """Create or replace a policy; it takes effect at once (R-POL-8).

        Args:
            pattern: a regular expression for names.
            definition: such as `{"dead-letter-exchange": "dlx"}`.
            apply_to: all, queues, exchanges, classic_queues or quorum_queues.
            operator: set an operator policy.

        Raises:
            PreconditionFailedError: the policy is invalid.
        """
        policy = {
            "name": name,
            "pattern": pattern,
            "definition": arguments_document(definition),
            "priority": priority,
            "apply-to": apply_to,
        }
        self._request("set_operator_policy" if operator else "set_policy", policy=policy)

    def clear_policy(self, name: str, *, operator: bool = False) -> None:
        """Remove a policy, or an operator policy."""
        self._request("clear_operator_policy" if operator else "clear_policy", name=name)

    def set_permissions(
        self, user: str, *, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        """Set what a user may do, as regular expressions for names; `""` permits nothing."""
        self._request("set_permissions", user=user, configure=configure, write=write, read=read)

    def clear_permissions(self, user: str) -> None:
        """Remove all permissions of a user."""
        self._request("clear_permissions", user=user)

    def deployed(
        self, service: str, version: str, queues: Sequence[str] = (), reason: str | None = None
    ) -> None:
        """Note that a version of a service was deployed, for everyone who asks what broke when.

        Args:
            queues: those that the service works on; none: it may concern all.
            reason: why, in words.

        Raises:
            NotFoundError: one of the queues does not exist.
            PreconditionFailedError: the service or version is blank.
        """
        more = {} if reason is None else {"reason": reason}
        self._request("deployed", service=service, version=version, queues=[*queues], **more)

    def import_definitions(self, document: Mapping[str, Any]) -> ImportResult:
        """Declare everything that a definitions document has for this vhost, or nothing.

        While the job is alive, this waits longer than usual for a large document.

        Raises:
            ClientError: the document is too large for a command.
            PreconditionFailedError: the document is invalid or contradicts an existing object.
        """
        return _import(self._request, document)

    def export_definitions(self) -> dict[str, Any]:
        """Return everything declared in this vhost as a definitions document for RabbitMQ.

        Raises:
            ClientError: the topology kept changing while it was read.
        """
        return _export(self._request)

    def _bind(
        self,
        op: str,
        source: str,
        kind: str,
        destination: str,
        routing_key: str,
        arguments: Arguments | None,
    ) -> None:
        binding = {
            "source": source,
            "destination": destination,
            "destination_type": kind,
            "routing_key": routing_key,
            "arguments": arguments_document(arguments),
        }
        self._request(op, binding=binding)


def _import(request: Callable[..., dict[str, Any]], document: Mapping[str, Any]) -> ImportResult:
    """Import a document; `request` sends a command by its op and members."""
    try:
        written = write_definitions(document)
    except (ValueError, TypeError) as error:
        raise ClientError(f"the definitions cannot be imported: {error}") from error
    extra_wait_s = IMPORT_WAIT_S + written.text_bytes * IMPORT_WAIT_S_PER_MB / 1_000_000
    answer = request("import_definitions", extra_wait_s=extra_wait_s, **written.member)
    return ImportResult(int(answer["imported"]), tuple(answer["skipped"]))


def _export(request: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Export a vhost, and start again if the topology changes between two pages."""
    for _attempt in range(MAX_EXPORT_ATTEMPTS):
        document = _pages(request)
        if document is not None:
            return document
    raise ClientError("the topology keeps changing: export it again at a quieter time")


def _pages(request: Callable[..., dict[str, Any]]) -> dict[str, Any] | None:
    """Join the pages of an export; None if the topology changed between two of them."""
    document: dict[str, Any] = {section: [] for section in SECTIONS}
    page = request("export_definitions")
    version = page["version"]
    while True:
        for item in page["skipped"]:
            logger.warning("not exported: %s", item)
        for section, member in page["objects"]:
            document.setdefault(section, []).append(member)
        if "next" not in page:
            return document
        page = request("export_definitions", first=page["next"])
        if page["version"] != version:
            return None
