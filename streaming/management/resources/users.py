"""Users, their limits, and what they may do."""

from typing import Any, Final

import msgspec
from starlette.responses import Response

from streaming.amqp.login import HASHING_ALGORITHMS, LOOPBACK_USER, User, new_password_hash
from streaming.amqp.vhosts import OpenVhost
from streaming.broker import commands
from streaming.management.answers import created, done
from streaming.management.bodies import Members, from_base64
from streaming.management.errors import bad_request, missing, not_found, term
from streaming.management.listing import Listing
from streaming.management.port import Front
from streaming.management.resources.doing import administer, administrator_of
from streaming.management.routing import JSON_ALONE, Asked, Resource, administrator, anyone
from topology.declarations import MAX_NAME_BYTES, Permission, TopicPermission
from topology.limits import read_user_limits

_LIMITS: Final = ("max-connections", "max-channels")


def user_item(user: User) -> dict[str, Any]:
    """A user, as definitions have it."""
    return {
        "name": user.name,
        "password_hash": user.password_hash or "",
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": user_limits(user),
    }


def user_limits(user: User) -> dict[str, int]:
    """The limits of a user, by name."""
    return dict(msgspec.to_builtins(user.limits))


def read_user(name: str, members: Members, before: User | None) -> User:
    """The user that a request or a definitions document describes.

    Raises:
        ApiError: 400, it cannot be used.
    """
    document = members.document
    if "tags" not in document:
        raise bad_request("tags_not_present")
    if not name or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise bad_request("user_name_is_empty_or_too_long")
    if document.get("password") is not None and document.get("password_hash") is not None:
        raise bad_request("both_password_and_password_hash_are_provided")
    algorithm = members.text("hashing_algorithm", "rabbit_password_hashing_sha256")
    password_hash: str | None = None
    if document.get("password") is not None:
        password = members.text("password")
        algorithm = "rabbit_password_hashing_sha256"
        password_hash = new_password_hash(password) if password else None
    elif "password_hash" in document:
        password_hash = document["password_hash"]
        if not isinstance(password_hash, str):
            raise bad_request(["not_base64", password_hash])
        from_base64(password_hash)
    if algorithm not in HASHING_ALGORITHMS:
        raise bad_request(f"unknown hashing algorithm '{algorithm}'")
    try:
        limits = read_user_limits(document.get("limits") or {})
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise bad_request(f"limits: {error}") from None
    if before is not None and "limits" not in document:
        limits = before.limits
    loopback = name == LOOPBACK_USER if before is None else before.loopback_only
    return User(name, password_hash, algorithm, _tags(document["tags"]), loopback, limits)


def _tags(tags: Any) -> tuple[str, ...]:
    words = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(words, list):
        raise bad_request("tags must be a text or an array")
    found = tuple(str(word).strip() for word in words)
    return tuple(word for word in found if word)


def _user(asked: Asked) -> User:
    found = asked.front.server.users.by_name.get(asked.names["user"])
    if found is None:
        raise missing()
    return found


async def all_users(asked: Asked) -> Any:
    """All users."""
    items = [user_item(user) for user in asked.front.server.users.by_name.values()]
    return await Listing(asked.query, ("name",)).reply(items)


async def users_without_permissions(asked: Asked) -> Any:
    """Users who may open no vhost."""
    users = asked.front.server.users.by_name
    vhosts = asked.front.server.vhosts.values()
    known = {one.user for vhost in vhosts for one in _permissions_in(asked.front, vhost)}
    items = [user_item(user) for name, user in users.items() if name not in known]
    return await Listing(asked.query, ("name",)).reply(items)


async def one_user(asked: Asked) -> Any:
    """A user."""
    return user_item(_user(asked))


async def put_user(asked: Asked) -> Response:
    """Add a user, or replace it."""
    name = asked.names["user"]
    before = asked.front.server.users.by_name.get(name)
    user = read_user(name, asked.members(), before)
    return created(new=await asked.front.put_user(user, administrator_of(asked)))


async def delete_user(asked: Asked) -> Response:
    """Delete a user with its permissions."""
    await asked.front.delete_user(_user(asked).name, administrator_of(asked))
    return done()


async def delete_users(asked: Asked) -> Response:
    """Delete several users; those that are not there stay so."""
    names = asked.members().document.get("users")
    if not isinstance(names, list):
        raise bad_request("[{key_missing,users}]")
    for name in names:
        if isinstance(name, str) and name in asked.front.server.users.by_name:
            await asked.front.delete_user(name, administrator_of(asked))
    return done()


# -- limits


async def all_user_limits(asked: Asked) -> Any:
    """The limits of all users, or of the one in the path."""
    users = asked.front.server.users.by_name
    chosen = [_user(asked)] if "user" in asked.names else [users[name] for name in sorted(users)]
    return [{"user": one.name, "value": user_limits(one)} for one in chosen if user_limits(one)]


async def put_user_limit(asked: Asked) -> Response:
    """Set a limit of a user."""
    members = asked.members()
    members.need("value")
    name, value = asked.names["name"], members.get("value")
    if name not in _LIMITS:
        raise bad_request(f'Unrecognised terms [{{<<"{name}">>,{term(value)}}}] in user-limits')
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(f"{name} should be a number, actually was {term(value)}")
    user = asked.front.server.users.by_name.get(asked.names["user"])
    if user is None:
        raise bad_request(["no_such_user", asked.names["user"]])
    await _set_limit(asked, user, name, value)
    return done()


async def delete_user_limit(asked: Asked) -> Response:
    """Remove a limit of a user."""
    name, user = asked.names["name"], asked.front.server.users.by_name.get(asked.names["user"])
    if user is None:
        raise not_found("vhost_not_found")
    if name in _LIMITS:
        await _set_limit(asked, user, name, None)
    return done()


async def _set_limit(asked: Asked, user: User, name: str, value: int | None) -> None:
    limits = msgspec.structs.replace(user.limits, **{name.replace("-", "_"): value})
    limited = msgspec.structs.replace(user, limits=limits)
    await asked.front.put_user(limited, administrator_of(asked))


# -- permissions


def permission_item(vhost: str, permission: Permission) -> dict[str, Any]:
    """Permissions of a user in a vhost."""
    return {
        "user": permission.user,
        "vhost": vhost,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }


def topic_permission_item(vhost: str, permission: TopicPermission) -> dict[str, Any]:
    """A topic permission of a user in a vhost."""
    return {
        "user": permission.user,
        "vhost": vhost,
        "exchange": permission.exchange,
        "write": permission.write,
        "read": permission.read,
    }


def _permissions_in(front: Front, vhost: OpenVhost) -> list[Permission]:
    """Those that are recorded, and what administrators may do without any."""
    recorded = vhost.shard.vhost.permissions
    implied = [
        Permission(name, ".*", ".*", ".*")
        for name in front.implied_in(vhost)
        if name in front.server.users.by_name and not recorded.knows(name)
    ]
    return recorded.permissions() + implied


def _all_permissions(asked: Asked, *, topic: bool) -> list[dict[str, Any]]:
    """The permissions in the vhost of the path, or in all; of its user, or of all."""
    vhosts = sorted(asked.front.server.vhosts.items())
    if "vhost" in asked.names:
        vhosts = [(asked.vhost.name, asked.vhost)]
    user = asked.names.get("user")
    found = []
    for name, vhost in vhosts:
        if topic:
            table = vhost.shard.vhost.topic_permissions
            items = [topic_permission_item(name, one) for one in table.permissions()]
        else:
            items = [permission_item(name, one) for one in _permissions_in(asked.front, vhost)]
        found += [item for item in items if user in {None, item["user"]}]
    return found


async def permissions(asked: Asked) -> Any:
    """Permissions, of all vhosts and users or of those in the path."""
    if "user" in asked.names:
        _user(asked)
    items = _all_permissions(asked, topic=False)
    return await Listing(asked.query, ("vhost", "user"), has_pages=False).reply(items)


async def topic_permissions(asked: Asked) -> Any:
    """Topic permissions, of all vhosts and users or of those in the path."""
    if "user" in asked.names:
        _user(asked)
    items = _all_permissions(asked, topic=True)
    return await Listing(asked.query, ("vhost", "user", "exchange"), has_pages=False).reply(items)


async def one_permission(asked: Asked) -> Any:
    """The permissions of a user in a vhost."""
    found = _all_permissions(asked, topic=False)
    if not found:
        raise missing()
    return found[0]


async def one_topic_permission(asked: Asked) -> Any:
    """The topic permissions of a user in a vhost, whatever exchange is named."""
    found = _all_permissions(asked, topic=True)
    if not found:
        raise missing()
    return found


def _expect_both(asked: Asked) -> None:
    server = asked.front.server
    if asked.names["vhost"] not in server.vhosts or asked.names["user"] not in server.users.by_name:
        raise bad_request("vhost_or_user_not_found")


async def put_permission(asked: Asked) -> Response:
    """Set the permissions of a user in a vhost."""
    _expect_both(asked)
    members = asked.members()
    members.need("configure", "write", "read")
    new = not asked.vhost.shard.vhost.permissions.knows(asked.names["user"])
    command = commands.SetPermissions(
        user=asked.names["user"],
        configure=members.text("configure"),
        write=members.text("write"),
        read=members.text("read"),
    )
    await administer(asked, asked.vhost, command)
    return created(new=new)


async def delete_permission(asked: Asked) -> Response:
    """Take the permissions of a user in a vhost away."""
    await one_permission(asked)
    user = asked.names["user"]
    if not asked.vhost.shard.vhost.permissions.knows(user):
        raise bad_request(
            f"{user} is an administrator of dlx.toml, who may do everything where no permissions "
            "are recorded for it: put empty ones instead"
        )
    command = commands.ClearPermissions(user=user)
    await administer(asked, asked.vhost, command)
    return done()


async def put_topic_permission(asked: Asked) -> Response:
    """Set the topic permission of a user at an exchange."""
    _expect_both(asked)
    members = asked.members()
    members.need("exchange", "write", "read")
    user, exchange = asked.names["user"], members.text("exchange")
    new = not _all_permissions(asked, topic=True)
    command = commands.SetTopicPermissions(
        user=user, exchange=exchange, write=members.text("write"), read=members.text("read")
    )
    await administer(asked, asked.vhost, command)
    return created(new=new)


async def delete_topic_permission(asked: Asked) -> Response:
    """Take the topic permissions of a user in a vhost away, or that at one exchange."""
    await one_topic_permission(asked)
    command = commands.ClearTopicPermissions(
        user=asked.names["user"], exchange=asked.names.get("exchange")
    )
    await administer(asked, asked.vhost, command)
    return done()


RESOURCES: Final = [
    Resource("users", administrator, {"GET": all_users}),
    Resource("users/without-permissions", administrator, {"GET": users_without_permissions}),
    Resource("users/bulk-delete", administrator, {"POST": delete_users}),
    Resource(
        "users/{user}", administrator, {"GET": one_user, "PUT": put_user, "DELETE": delete_user}
    ),
    Resource("users/{user}/permissions", administrator, {"GET": permissions}),
    Resource("users/{user}/topic-permissions", administrator, {"GET": topic_permissions}),
    Resource("user-limits", anyone, {"GET": all_user_limits}, has_head=False),
    Resource("user-limits/{user}", anyone, {"GET": all_user_limits}, has_head=False),
    Resource(
        "user-limits/{user}/{name}",
        administrator,
        {"PUT": put_user_limit, "DELETE": delete_user_limit},
        kinds=JSON_ALONE,
    ),
    Resource("permissions", administrator, {"GET": permissions}),
    Resource(
        "permissions/{vhost}/{user}",
        administrator,
        {"GET": one_permission, "PUT": put_permission, "DELETE": delete_permission},
    ),
    Resource("topic-permissions", administrator, {"GET": topic_permissions}),
    Resource(
        "topic-permissions/{vhost}/{user}",
        administrator,
        {
            "GET": one_topic_permission,
            "PUT": put_topic_permission,
            "DELETE": delete_topic_permission,
        },
    ),
    Resource(
        "topic-permissions/{vhost}/{user}/{exchange}",
        administrator,
        {
            "GET": one_topic_permission,
            "PUT": put_topic_permission,
            "DELETE": delete_topic_permission,
        },
    ),
    Resource("vhosts/{vhost}/permissions", administrator, {"GET": permissions}),
    Resource("vhosts/{vhost}/topic-permissions", administrator, {"GET": topic_permissions}),
]
