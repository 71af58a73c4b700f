"""The fence of the ledger: a driver that lost its lease cannot commit, whenever it wakes up.

    raise_fence(epoch 8)  -->  the table has (dlx-fence, 8)
    a driver of epoch 7:  its commit carries (dlx-fence, 7)  -->  Delta refuses it: that identifier
                          has changed since the driver loaded the table; reloaded, 8 > 7: LeaseLost

Delta compares the transaction identifiers of a commit with those of the commits that were first, in
the same step that creates the log entry. So no pause of the driver, however long and wherever, lets
it commit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable
from deltalake.transaction import Transaction

from streaming.ledger.errors import FencedError

FENCE_ID: Final = "dlx-fence"


@dataclass(frozen=True)
class Fence:
    """The right of one driver to commit.

    Attributes:
        epoch: of its lease.
        check: raises if the lease is lost.
    """

    epoch: int
    check: Callable[[], None]

    @property
    def transaction(self) -> Transaction:
        """What every commit carries."""
        return Transaction(FENCE_ID, self.epoch)

    def refuse_lost(self, table: DeltaTable) -> None:
        """Refuse a commit to a table that a later driver has fenced off.

        Raises:
            FencedError: another driver continues.
        """
        self.check()
        raised = table.transaction_version(FENCE_ID)
        if raised is not None and raised > self.epoch:
            raise FencedError(
                f"{table.table_uri}: another job has taken the lease (epoch {raised}; this job has "
                f"{self.epoch}) and continues. This one commits nothing any more: stop it"
            )

    def is_raised(self, table: DeltaTable) -> bool:
        """Whether a table already refuses earlier drivers."""
        raised = table.transaction_version(FENCE_ID)
        return raised is not None and raised >= self.epoch
