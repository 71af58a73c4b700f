"""The reasons why a checkpoint or its tables cannot be used."""

from topology.errors import DlxError


class CheckpointError(DlxError):
    """This job cannot use the checkpoint as it is configured."""

    help_code = "checkpoint"


class FolderError(DlxError):
    """A location that the configuration names cannot be written to."""

    help_code = "folder"


class CheckpointInUseError(CheckpointError):
    """Another job uses the checkpoint."""

    help_code = "checkpoint-in-use"


class LeaseLostError(CheckpointError):
    """Another job has the lease of the checkpoint, or it could not be renewed in time."""

    help_code = "lease-lost"


class TablesMismatchError(CheckpointError):
    """The tables and the checkpoint are not of the same job or time."""

    help_code = "tables-mismatch"


class NewerVersionError(CheckpointError):
    """A newer version wrote the checkpoint."""

    help_code = "newer-version"


class FixedSettingError(CheckpointError):
    """A setting that is fixed when the checkpoint is created has changed."""

    help_code = "fixed-setting"


class UnfinishedBatchError(CheckpointError):
    """A batch was begun with another configuration or version."""

    help_code = "unfinished-batch"


class MissingVhostError(CheckpointError):
    """A vhost that has messages is no longer listed."""

    help_code = "missing-vhost"
