"""The tables that docs/dead-letters.md and docs/sql.md ask: the small shop of the unit tests."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streaming.contents.updater import ContentsUpdater
from tests.unit.queries.shop import a_shop
from tools.docs.markdown import all_blocks, replace
from tools.docs.registry import OF_SHOP, PLACE
from tools.docs.sessions import Sessions, is_pure


@contextmanager
def sessions() -> Iterator[Sessions]:
    """A shell in a folder with the shop's tables."""
    with tempfile.TemporaryDirectory(prefix="dlx-docs-") as folder:
        recording = a_shop(Path(folder) / "tables")
        ContentsUpdater(recording.place).update()
        recording.close()
        (Path(folder) / "dlx.toml").touch()  # the defaults: tables are in the folder tables
        yield Sessions(Path(folder))


def renew() -> list[str]:
    """Put what the commands print now into the pages; those that changed."""
    changed = []
    with sessions() as shell:
        for block in reversed(all_blocks()):
            if (
                PLACE.get(block.page) not in OF_SHOP
                or block.language != "console"
                or is_pure(block.text)
            ):
                continue
            text = shell.renewed(block.text)
            if text != block.text:
                replace(block, text)
                changed.append(block.page)
    return changed
