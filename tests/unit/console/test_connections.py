"""A client that sends no request gives its place up, however slowly it sends."""

import asyncio

import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from streaming.http_connections import MOST, REQUEST_S, bounded, server_config
from streaming.listening import listen


async def hello(_request):
    await asyncio.sleep(0)
    return PlainTextResponse("hello")


def with_server(protocol, visit):
    """Run a coroutine with the port of a server."""

    async def run():
        app = Starlette(routes=[Route("/", hello)])
        opened = listen("console", "127.0.0.1", 0)
        config = server_config(app, 64_000, graceful_s=1)
        config.http = protocol
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[opened]))
        try:
            return await visit(opened.getsockname()[1], server)
        finally:
            server.should_exit = True
            await serving

    return asyncio.run(run())


async def ended(reader):
    """Wait for the end of a connection; it may have been reset."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True


async def silence(port, count):
    """Open connections; return what reads them, and what closes them."""
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
    return [reader for reader, _ in opened], [writer for _, writer in opened]


async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.endswith(b"hello")


def test_connections_without_a_request_end():
    async def visit(port, server):
        readers, writers = await silence(port, 6)
        for one in b"GET / HTTP/1.1\r\nHost: x":
            writers[0].write(bytes([one]))
            await asyncio.sleep(0.02)
        ends = [await ended(reader) for reader in readers]
        assert not server.server_state.connections
        for one in writers:
            one.close()
        return ends == [True] * 6 and await ask(port)

    assert with_server(bounded(request_s=0.2), visit)


def test_a_connection_that_was_answered_waits_no_longer_than_a_new_one():
    async def visit(port, _server):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET")  # which ends the timeout of uvicorn
        has_ended = await ended(reader)
        writer.close()
        return has_ended

    assert with_server(bounded(request_s=0.3), visit)


def test_beyond_the_most_the_one_that_has_waited_longest_gives_way():
    async def visit(port, server):
        readers, writers = await silence(port, 8)
        assert await asyncio.gather(*(ask(port) for _ in range(3))) == [True] * 3
        assert len(server.server_state.connections) <= 4
        has_ended = await ended(readers[0])
        for one in writers:
            one.close()
        return has_ended

    assert with_server(bounded(most=4, request_s=60), visit)


def test_the_console_is_bounded():
    assert MOST < 1_024  # the usual limit of open files
    assert REQUEST_S <= 10
