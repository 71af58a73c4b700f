"""The client for asyncio has every method and argument of the synchronous client."""

import inspect

import pytest

from streaming import client
from streaming.client import aio

TWINS = ("Channel", "Connection", "Consumer", "Delivery", "Publisher", "Transaction")


def public_methods(kind):
    return {
        name: member
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    }


@pytest.mark.parametrize("name", TWINS)
def test_every_public_method_has_its_twin_with_the_same_arguments(name):
    sync, asynchronous = getattr(client, name), getattr(aio, name)

    for method, member in public_methods(sync).items():
        twin = inspect.getattr_static(asynchronous, method)
        if callable(member) and not isinstance(twin, property):
            expected = parameters(member)
            assert parameters(getattr(asynchronous, method)) == expected, f"{name}.{method}"


def parameters(method):
    return [
        (each.name, each.kind, each.default)
        for each in inspect.signature(method).parameters.values()
        if each.name != "self"
    ]


@pytest.mark.parametrize("name", TWINS)
def test_every_method_of_asyncio_has_a_docstring(name):
    for method, member in public_methods(getattr(aio, name)).items():
        assert inspect.getdoc(member), f"{name}.{method}"
