"""The commands of rabbitmqctl that the tests of the Java client use, over the management API."""

import base64
import json
import os
import sys
from http.client import HTTPConnection  # the tests start this program often: it must start soon
from typing import Any, Final
from urllib.parse import quote

_LOGIN: Final = "Basic " + base64.b64encode(b"guest:guest").decode()


def ask(method: str, *path: str, body: Any = None) -> Any:
    """The answer to a request; the program ends if it is an error."""
    connection = HTTPConnection("localhost", 15672, timeout=30)
    headers = {"Authorization": _LOGIN, "Content-Type": "application/json"}
    url = "/".join(["/api", *(quote(part, safe="") for part in path)])
    connection.request(method, url, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        sys.exit(f"{method} {url}: {answer.status} {content.decode()}")
    return json.loads(content) if content else None


def option(arguments: list[str], name: str, default: str) -> str:
    """Remove an option and return its value."""
    if name not in arguments:
        return default
    at = arguments.index(name)
    value = arguments[at + 1]
    del arguments[at : at + 2]
    return value


def permissions(kinds: tuple[str, ...], values: list[str]) -> dict[str, str]:
    """The body of a request for permissions."""
    return dict(zip(kinds, values, strict=True))


def main() -> None:
    """Carry out a command."""
    arguments = [each for each in sys.argv[1:] if each != "-q"]
    option(arguments, "-n", "")
    vhost = option(arguments, "-p", "/")
    priority = int(option(arguments, "--priority", "0"))
    match arguments:
        case []:
            sys.exit("commands: set_topic_permissions")
        case ["list_connections", *_]:
            for each in ask("GET", "connections"):
                sys.stdout.write(f"{each['name']}\t{each['peer_port']}\n")
        case ["close_connection", name, _]:
            ask("DELETE", "connections", name)
        case ["set_policy", name, pattern, definition]:
            body = {
                "pattern": pattern,
                "definition": json.loads(definition),
                "priority": priority,
            }
            ask("PUT", "policies", vhost, name, body=body)
        case ["clear_policy", name]:
            ask("DELETE", "policies", vhost, name)
        case ["add_user", name, password]:
            ask("PUT", "users", name, body={"password": password, "tags": ""})
        case ["set_user_tags", "guest", *tags]:
            ask("PUT", "users", "guest", body={"password": "guest", "tags": ",".join(tags)})
        case ["delete_user", name]:
            ask("DELETE", "users", name)
        case ["add_vhost", name]:
            ask("PUT", "vhosts", name, body={})
        case ["delete_vhost", name]:
            ask("DELETE", "vhosts", name)
        case ["set_permissions", user, *values]:
            body = permissions(("configure", "write", "read"), values)
            ask("PUT", "permissions", vhost, user, body=body)
        case ["clear_permissions", user]:
            ask("DELETE", "permissions", vhost, user)
        case ["set_topic_permissions", user, *values]:
            body = permissions(("exchange", "write", "read"), values)
            ask("PUT", "topic-permissions", vhost, user, body=body)
        case ["clear_topic_permissions", user]:
            ask("DELETE", "topic-permissions", vhost, user)
        case _:
            sys.exit(os.EX_USAGE)


if __name__ == "__main__":
    main()
