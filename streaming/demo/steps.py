"""The steps of the demo's story, which the command line names too."""

from enum import StrEnum


class Step(StrEnum):
    """A step of the story; `--pause-at` waits before it."""

    deploy = "deploy"
    repair = "repair"
    cause = "cause"
    before = "before"
    redrive = "redrive"
    report = "report"
