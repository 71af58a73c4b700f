"""Values as RabbitMQ prints them in its replies: as Erlang terms."""

from topology.values import AmqpValue, Timestamp, amqp_type


def erlang_term(value: AmqpValue) -> str:
    """The Erlang term that RabbitMQ holds for a value, printed: `<<"some">>`, `-1`, `true`."""
    match value:
        case None:
            return "undefined"
        case bool():
            return "true" if value else "false"
        case str():
            return erlang_binary(value)
        case bytes():
            return f"<<{','.join(str(byte) for byte in value)}>>"
        case Timestamp():
            return str(value.seconds)
        case list():
            return f"[{','.join(f'{{{amqp_type(item)},{erlang_term(item)}}}' for item in value)}]"
        case dict():
            members = (
                f"{{{erlang_binary(name)},{amqp_type(item)},{erlang_term(item)}}}"
                for name, item in sorted(value.items())
            )
            return f"[{','.join(members)}]"
        case _:
            return str(value)


def erlang_binary(text: str) -> str:
    """Text as an Erlang binary: `<<"some">>`, or `<<"größer"/utf8>>` if not plain ASCII."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'<<"{escaped}">>' if text.isascii() else f'<<"{escaped}"/utf8>>'
