"""What these tests share."""

from tests.fixtures.services import equal_workers, quick_java

__all__ = ["equal_workers", "quick_java"]
