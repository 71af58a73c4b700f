"""What is said of a configuration that is wrong."""

import pytest

from streaming.config import InvalidConfigError, parse_config


def problems_of(text: str) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        parse_config(text)
    return [str(problem) for problem in caught.value.problems]
