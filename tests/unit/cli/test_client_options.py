"""The options of the commands that talk to a running job."""

import pytest


@pytest.mark.parametrize(
    "arguments",
    [
        ("publish", "x", "--timeout", "nan"),
        ("publish", "x", "--timeout", "inf"),
        ("get", "q", "--lease", "inf"),
        ("consume", "q", "--idle", "nan"),
    ],
    ids=" ".join,
)
def test_seconds_that_no_clock_shows_are_a_usage_error(dlx, arguments):
    status, out, err = dlx(*arguments)

    assert (status, out) == (2, "")
    assert f"Invalid value for '{arguments[2]}': must be at most 604800, a week" in err
