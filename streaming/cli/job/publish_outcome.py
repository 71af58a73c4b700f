"""What became of the messages that one `dlx publish` has sent."""

from collections.abc import Iterator
from concurrent.futures import Future

from streaming.cli.exit_codes import EXIT_FINDINGS, EXIT_NO_ANSWER, EXIT_OK, EXIT_UNROUTED
from streaming.client import BrokerError, ClientError, NoAnswerError, UnroutableError


class PublishOutcome:
    """Counts confirms, and tells each different error once.

    Attributes:
        confirmed: how many the broker confirmed, the unrouted ones included.
        unrouted: how many of them no queue took.
    """

    def __init__(self, *, mandatory: bool) -> None:
        self.confirmed = 0
        self.unrouted = 0
        self._mandatory = mandatory
        self._errors: dict[str, int] = {}
        self._common: BrokerError | NoAnswerError | None = None
        self._are_unanswered = True

    def __str__(self) -> str:
        if not self.unrouted:
            return f"{self.confirmed} confirmed"
        some = "" if self.unrouted == self.confirmed else f"{self.unrouted} of them "
        return f"{self.confirmed} confirmed, {some}not routed"

    def add(self, confirm: Future[None]) -> None:
        """Wait for a confirm and count it."""
        try:
            confirm.result()
        except UnroutableError as error:
            if self._mandatory:
                self.failed(error)
                return
            self.unrouted += 1
        except ClientError as error:
            self.failed(error)
            return
        self.confirmed += 1

    def failed(self, error: ClientError, place: str = "") -> None:
        """Note a message that was not sent, not confirmed or refused."""
        if isinstance(error, BrokerError | NoAnswerError):
            self._common = error
        self._are_unanswered &= isinstance(error, NoAnswerError) and error.takes_effect
        text = f"{place}{error}"
        self._errors[text] = self._errors.get(text, 0) + 1

    def raise_common(self) -> None:
        """Raise what the broker said if it refused every message, or that nothing answers."""
        if self._common is None or self.confirmed or len(self._errors) > 1:
            return
        [text] = self.problems()
        if isinstance(self._common, NoAnswerError):
            raise NoAnswerError(text, takes_effect=self._common.takes_effect)
        raise self._common

    def problems(self) -> Iterator[str]:
        """Yield each different error once, with how many messages it concerns."""
        for text, count in self._errors.items():
            yield text if count == 1 else f"{count} messages: {text}"

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if self._errors:
            return EXIT_NO_ANSWER if self._are_unanswered else EXIT_FINDINGS
        return EXIT_UNROUTED if self.unrouted else EXIT_OK
