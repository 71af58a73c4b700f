"""The Java that these tests share."""

from tests.fixtures.services import quick_java

__all__ = ["quick_java"]
