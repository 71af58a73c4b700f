"""Every path below `/api/dlx`: what it takes, what it answers, and who may ask.

This list makes both the resources of the API and its OpenAPI document.
"""

from dataclasses import dataclass
from typing import Any, Final

from streaming.dlx_api import answers, redrive_answers, request_bodies
from streaming.dlx_api.answers import Pages

MAX_PAGE: Final = 1_000_000
RAW: Final = dict[str, Any]
"""The type of a body that is passed on as it was sent."""

PAGE_SIZE: Final = 100
MAX_PAGE_SIZE: Final = 500
MAX_TEXT: Final = 4_000
"""The longest value of a parameter, in characters."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query.

    Attributes:
        choices: the words that it may be; empty: any text.
        most: of a whole number from 1; 0: it is text.
    """

    name: str
    text: str
    choices: tuple[str, ...] = ()
    default: Any = None
    most: int = 0
    is_needed: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        found: dict[str, Any] = {"type": "string", "maxLength": MAX_TEXT}
        if self.most:
            found = {"type": "integer", "minimum": 1, "maximum": self.most}
        elif self.choices:
            found = {"type": "string", "enum": list(self.choices)}
        return found if self.default is None else {**found, "default": self.default}

    def fault(self, value: str) -> str:
        """Why a value is refused; empty if it is not."""
        if self.most:
            is_whole = value.isascii() and value.isdecimal() and len(value) < 19  # noqa: PLR2004 - digits of 2**63
            if not is_whole or not 1 <= int(value) <= self.most:
                return f"{self.name}: expected a whole number from 1 to {self.most}"
        elif self.choices:
            if value not in self.choices:
                return f"{self.name}: expected one of {', '.join(self.choices)}"
        elif len(value) > MAX_TEXT:
            return f"{self.name}: is longer than {MAX_TEXT} characters"
        return ""


@dataclass(frozen=True, slots=True)
class Question:
    """What can be asked at a path.

    Attributes:
        name: of the operation, and of the function that answers it from the tables.
        path: below /api/dlx/; parts in braces are variable.
        answer: the type of the answer.
        body: the type of the body; None: there is none.
        acts: whether it needs a user who may act: an administrator or a policymaker.
    """

    name: str
    path: str
    summary: str
    answer: Any
    parameters: tuple[Parameter, ...] = ()
    method: str = "GET"
    body: Any = None
    acts: bool = False

    @property
    def variables(self) -> list[str]:
        """The variable parts of the path."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]


AS_OF: Final = Parameter(
    "as_of",
    "answer as it was then: a batch such as `1234`, an instant such as `2026-11-22T10:05:00Z`, or "
    "the id of a message",
)
PAGES: Final = (
    Parameter("page", "the number of the page", default=1, most=MAX_PAGE),
    Parameter("page_size", "items of a page", default=PAGE_SIZE, most=MAX_PAGE_SIZE),
)
BODIES: Final = Parameter(
    "bodies", "whether items have the bodies of messages", ("false", "true"), "false"
)
LETTERS: Final = (
    Parameter("queue", "the queue where it died"),
    Parameter("reason", "why it died, such as `rejected`, `expired` or `maxlen`"),
    Parameter("exchange", "where it was published, or dead-lettered, before"),
    Parameter("routing_key", "its routing key then"),
    Parameter("cause", "in the words of the consumer that gave it up"),
    Parameter("cause_header", "the header that has the cause"),
    Parameter("header", "`NAME`, or `NAME=VALUE`"),
    Parameter("id", "ids such as `1/0/42`, with commas between them"),
    Parameter("since", "an instant"),
    Parameter("until", "an instant"),
)
_FROM: Final = Parameter("from", "the earlier instant, as `as_of`", is_needed=True)
_TO: Final = Parameter("to", "the later instant; without it: the last batch")

QUESTIONS: Final = (
    Question(
        *("dead_letters", "dead-letters", "Dead letters, with the counts of each attribute"),
        answers.DeadLetters,
        (*LETTERS, BODIES, AS_OF, *PAGES),
    ),
    Question(
        *("dead_letters", "dead-letters/{vhost}", "The same of one vhost"),
        answers.DeadLetters,
        (*LETTERS, BODIES, AS_OF, *PAGES),
    ),
    Question(
        *("groups", "dead-letter-groups", "Dead letters in groups, the largest first"),
        Pages[answers.Group],
        (
            Parameter(
                "by",
                "attributes with commas between them: `vhost`, `queue`, `reason`, `exchange`, "
                "`routing_key`, `outcome`, `cause` or `header:NAME`",
                default="queue,reason",
            ),
            Parameter("new_since", "an instant: adds whether a group is new since then"),
            *(*LETTERS, AS_OF, *PAGES),
        ),
    ),
    Question(
        *("story", "messages/{id}", "The story of one message, by its id or its message_id"),
        answers.Story,
        (AS_OF,),
    ),
    Question(
        *("queues", "queues", "The queues with what was in them"),
        Pages[answers.QueueThen],
        (AS_OF, *PAGES),
    ),
    Question(
        *("queues", "queues/{vhost}", "The same of one vhost"),
        Pages[answers.QueueThen],
        (AS_OF, *PAGES),
    ),
    Question(
        *("contents", "queues/{vhost}/{queue}/contents", "What was in a queue; nothing is taken"),
        Pages[answers.HeldCopy],
        (
            Parameter(
                "state", "what is ready, or what consumers hold", ("ready", "unacked"), "ready"
            ),
            *(BODIES, AS_OF, *PAGES),
        ),
    ),
    Question(
        *("changes", "queues/{vhost}/{queue}/changes", "What entered and left a queue, and why"),
        Pages[answers.QueueChange],
        (_FROM, _TO, *PAGES),
    ),
    Question(
        *("topology", "topology/{vhost}", "What was declared in a vhost"),
        answers.Topology,
        (AS_OF,),
    ),
    Question(
        *("diff", "topology/{vhost}/diff", "What changed in a vhost between two instants"),
        answers.TopologyDiff,
        (_FROM, _TO),
    ),
    Question(
        *("import_plan", "topology/{vhost}/diff", "What importing the definitions would change"),
        answers.TopologyDiff,
        (AS_OF,),
        method="POST",
        body=RAW,
    ),
    Question(
        *("balance", "balance", "Where every message and copy went, and what is unexplained"),
        answers.BalanceSheet,
        (AS_OF,),
    ),
    Question(
        *("redrives", "redrives", "The redrives, the latest first"),
        Pages[redrive_answers.RedriveRow],
        PAGES,
    ),
    Question(
        *("redrives", "redrives/{vhost}", "The same of one vhost"),
        Pages[redrive_answers.RedriveRow],
        PAGES,
    ),
    Question(
        *("plan", "redrives/{vhost}", "Make a sealed plan; nothing moves"),
        redrive_answers.Plan,
        method="POST",
        body=request_bodies.PlanWish,
        acts=True,
    ),
    Question(
        *("outcome", "redrives/{vhost}/{id}", "What became of a redrive and of each letter"),
        redrive_answers.Outcome,
        PAGES,
    ),
    Question(
        *("kept_plan", "redrives/{vhost}/{id}/plan", "A sealed plan that was made before"),
        redrive_answers.Plan,
    ),
    Question(
        *("approve", "redrives/{vhost}/{id}/approve", "Approve a plan: its letters move"),
        redrive_answers.RedriveNow,
        method="POST",
        body=request_bodies.Approval,
        acts=True,
    ),
    Question(
        *("control", "redrives/{vhost}/{id}/control", "Pause, resume or cancel a redrive"),
        redrive_answers.RedriveNow,
        method="POST",
        body=request_bodies.Control,
        acts=True,
    ),
    Question(
        *("deployed", "deployments/{vhost}/{service}", "Note that a service was deployed"),
        answers.Deployment,
        method="PUT",
        body=request_bodies.DeploymentNote,
        acts=True,
    ),
    Question("clock", "clock", "The time of a broker in memory", answers.Clock),
    Question(
        *("advance", "clock", "Let time pass, if the clock is moved by hand"),
        answers.Clock,
        method="POST",
        body=request_bodies.Advance,
        acts=True,
    ),
)
