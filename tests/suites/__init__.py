"""Test suites of client libraries, run against our broker: none of them is kept here.

`python -m tests.suites NAME` fetches a suite, runs it, and compares the tests that fail with
those in `expected.toml`. Each entry there has a reason, and one that concerns our broker alone
names a row of docs/compatibility.md.
"""
