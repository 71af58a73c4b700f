"""The reasons why a checkpoint or its tables cannot be used."""

from topology.errors import DlxError


class CheckpointError(DlxError):
    """This job cannot use the checkpoint as it is configured."""


class FolderError(DlxError):
    """A location that the configuration names cannot be written to."""
