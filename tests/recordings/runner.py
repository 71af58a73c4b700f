"""Replay JSON messaging scenarios on a live RabbitMQ broker and record what happens.

A scenario is a declarative topology (a subset of RabbitMQ's definitions.json),
a list of timed steps, and an end time.  The runner executes it in a dedicated
virtual host and returns an outcome document: the result of each step, the depth
of every queue at the end, and the exact ordered content of every queue.

    python -m tests.recordings.runner run SCENARIO.json [...]
                                              print the outcome of each scenario
    python -m tests.recordings.runner capture --out DIR SCENARIO.json [...]
                                              run each several times, keep only the
                                              reproducible ones, write golden files
    python -m tests.recordings.runner check GOLDEN.json [...]
                                              replay recorded files, report differences

ORACLE_BROKERS names the brokers, as `AMQP port:management port,...`; `python -m tests.oracle`
starts them.
"""

from __future__ import annotations

import argparse
import concurrent.futures as cf
import copy
import datetime as dt
import json
import os
import queue as queue_mod
import random
import struct
import sys
import time
import urllib.parse
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pika.data
import requests
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError, UnroutableError

from streaming.protocol.amqp_properties import PROPERTIES

USER = os.environ.get("ORACLE_USER", "guest")
PASSWORD = os.environ.get("ORACLE_PASSWORD", "guest")
# AMQP port and management port of each broker to record, all on the loopback interface
BROKERS = os.environ.get("ORACLE_BROKERS", "5672:15672")
PREFIX = os.environ.get("ORACLE_PREFIX", "oracle")
HOST = "127.0.0.1"

DRAIN_GAP_MS = 60  # pause between two queues of the final drain
SECOND_PASS_MS = 200  # pause before the second drain pass
MAX_LAG_MS = 90  # a run in which a step started later than this is void


# --------------------------------------------------------------------------
# helpers

_encode_value = pika.data.encode_value


def encode_value(pieces, value):
    """The client library cannot send doubles; add that."""
    if isinstance(value, float):
        pieces.append(struct.pack(">cd", b"d", value))
        return 9
    return _encode_value(pieces, value)


pika.data.encode_value = encode_value

_decode_value = pika.data.decode_value


def decode_value(encoded, offset):
    """The client library truncates doubles to integers; keep them whole."""
    if encoded[offset : offset + 1] == b"d":
        return struct.unpack_from(">d", encoded, offset + 1)[0], offset + 9
    return _decode_value(encoded, offset)


pika.data.decode_value = decode_value


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def _stripped(value):
    if isinstance(value, dict):
        result = {
            key: _stripped(val)
            for key, val in value.items()
            if not key.startswith("x-last-death-") and not (key == "x-delivery-count" and val == 0)
        }
        if isinstance(result.get("headers"), dict) and not result["headers"]:
            result["headers"] = None
        return result
    return [_stripped(item) for item in value] if isinstance(value, list) else value


def difference(outcomes):
    """How versions differ: `none`; `headers`: only in headers that one lacks; or `semantic`."""
    if len({json.dumps(one, sort_keys=True) for one in outcomes.values()}) == 1:
        return "none"
    stripped = {json.dumps(_stripped(one), sort_keys=True) for one in outcomes.values()}
    return "headers" if len(stripped) == 1 else "semantic"


def quote(name: str) -> str:
    return urllib.parse.quote(name, safe="")


class Http:
    """Tiny management API client (policies and clean-up only)."""

    def __init__(self, port):
        self.base = f"http://{HOST}:{port}"
        self.session = requests.Session()
        self.session.auth = (USER, PASSWORD)
        self.session.trust_env = False

    def call(self, method, path, body=None, ok=(200, 201, 204)):
        response = self.session.request(method, self.base + path, json=body, timeout=30)
        if response.status_code not in ok:
            raise RuntimeError(f"{method} {path}: {response.status_code} {response.text}")
        return response.json() if response.content else None


class Broker:
    def __init__(self, spec):
        self.port, http_port = (int(part) for part in spec.split(":"))
        self.http_port = http_port
        overview = Http(http_port).call("GET", "/api/overview?columns=rabbitmq_version")
        self.version = overview["rabbitmq_version"]


def normalise_value(value):
    """Turn a decoded AMQP value into JSON; timestamps become a placeholder."""
    if isinstance(value, dt.datetime):
        return "<timestamp>"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {key: normalise_value(val) for key, val in value.items()}
    if isinstance(value, (list, tuple)):
        return [normalise_value(val) for val in value]
    return value


def message_record(method_exchange, routing_key, props, body):
    record = {
        "body": body.decode("utf-8", "backslashreplace"),
        "exchange": method_exchange,
        "routing_key": routing_key,
    }
    properties = {}
    for name in PROPERTIES:
        value = getattr(props, name, None)
        if value is not None:
            properties[name] = normalise_value(value)
    record["properties"] = properties
    record["headers"] = normalise_value(props.headers) if props.headers is not None else None
    return record


def make_properties(spec):
    spec = dict(spec or {})
    known = {name: spec.pop(name) for name in list(spec) if name in PROPERTIES}
    headers = spec.pop("headers", None)
    if spec:
        raise ValueError(f"unknown properties {sorted(spec)}")
    return pika.BasicProperties(headers=headers, **known)


# --------------------------------------------------------------------------
# one run of one scenario


class Run:
    def __init__(self, broker, scenario, vhost, jitter_ms=0, seed=0):
        self.broker = broker
        self.scenario = scenario
        self.vhost = vhost
        self.http = Http(broker.http_port)
        self.rng = random.Random(seed)
        self.jitter_ms = jitter_ms
        self.connection: Any = None
        self.channels = {}
        self.consumers = {}
        self.deliveries = {}  # ref -> (channel name, delivery tag, queue, record)
        self.unacked = []  # refs in delivery order
        self.max_lag = 0.0
        self.t0 = 0.0

    # ---- plumbing

    def connect(self):
        params = pika.ConnectionParameters(
            HOST,
            self.broker.port,
            self.vhost,
            pika.PlainCredentials(USER, PASSWORD),
            heartbeat=0,
            socket_timeout=20,
            blocked_connection_timeout=60,
        )
        self.connection = pika.BlockingConnection(params)

    def channel(self, name):
        channel = self.channels.get(name)
        if channel is None or not channel.is_open:
            channel = self.connection.channel()
            if name.startswith("pub"):
                channel.confirm_delivery()
            self.channels[name] = channel
        return channel

    def drop_channel(self, name):
        channel = self.channels.pop(name, None)
        if channel is not None and channel.is_open:
            channel.close()
        gone = [ref for ref in self.unacked if self.deliveries[ref][0] == name]
        self.unacked = [ref for ref in self.unacked if ref not in gone]
        for tag in [t for t, c in self.consumers.items() if c["channel"] == name]:
            self.consumers[tag]["closed"] = True
        return gone

    def now_ms(self):
        return (time.monotonic() - self.t0) * 1000.0

    def wait_until(self, at_ms):
        while True:
            left = at_ms - self.now_ms()
            if left <= 0:
                break
            self.connection.process_data_events(time_limit=left / 1000.0)
        self.connection.process_data_events(time_limit=0)

    # ---- topology

    def api(self, kind, name):
        return f"/api/{kind}/{quote(self.vhost)}/{quote(name)}"

    def put_policy(self, policy, kind="policies"):
        self.http.call(
            "PUT",
            self.api(kind, policy["name"]),
            {
                "pattern": policy["pattern"],
                "definition": policy["definition"],
                "priority": policy.get("priority", 0),
                "apply-to": policy.get("apply-to", "all" if kind == "policies" else "queues"),
            },
        )

    def declare_exchange(self, spec):
        self.channel("admin").exchange_declare(
            spec["name"],
            spec.get("type", "direct"),
            durable=spec.get("durable", True),
            auto_delete=spec.get("auto_delete", False),
            internal=spec.get("internal", False),
            arguments=spec.get("arguments") or {},
        )

    def declare_queue(self, spec):
        self.channel("admin").queue_declare(
            spec["name"],
            durable=spec.get("durable", True),
            auto_delete=spec.get("auto_delete", False),
            arguments=spec.get("arguments") or {},
        )

    def bind(self, spec, unbind=False):
        channel = self.channel("admin")
        key, arguments = spec.get("routing_key", ""), spec.get("arguments") or {}
        if spec.get("destination_type", "queue") == "exchange":
            call = channel.exchange_unbind if unbind else channel.exchange_bind
            call(
                destination=spec["destination"],
                source=spec["source"],
                routing_key=key,
                arguments=arguments,
            )
        else:
            call = channel.queue_unbind if unbind else channel.queue_bind
            call(
                queue=spec["destination"],
                exchange=spec["source"],
                routing_key=key,
                arguments=arguments,
            )

    def set_up(self):
        definitions = self.scenario.get("definitions", {})
        for policy in definitions.get("policies", []):
            self.put_policy(policy)
        for policy in definitions.get("operator_policies", []):
            self.put_policy(policy, "operator-policies")
        for spec in definitions.get("exchanges", []):
            self.declare_exchange(spec)
        for spec in definitions.get("queues", []):
            self.declare_queue(spec)
        for spec in definitions.get("bindings", []):
            self.bind(spec)

    def clean(self):
        """Remove everything a scenario may have left in the virtual host."""
        definitions = self.http.call("GET", f"/api/definitions/{quote(self.vhost)}")
        for policy in definitions.get("policies", []):
            self.http.call("DELETE", self.api("policies", policy["name"]), ok=(204, 404))
        for policy in self.http.call("GET", f"/api/operator-policies/{quote(self.vhost)}"):
            self.http.call("DELETE", self.api("operator-policies", policy["name"]), ok=(204, 404))
        # queues are listed by the broker itself: the definitions omit transient ones
        for item in self.http.call("GET", f"/api/queues/{quote(self.vhost)}?columns=name"):
            self.channel("admin").queue_delete(item["name"])
        for item in self.http.call("GET", f"/api/exchanges/{quote(self.vhost)}?columns=name"):
            if item["name"] and not item["name"].startswith("amq."):
                self.channel("admin").exchange_delete(item["name"])

    # ---- steps

    def record_delivery(self, ref, channel_name, method, props, body, queue, auto_ack):
        record = message_record(method.exchange, method.routing_key, props, body)
        record["redelivered"] = bool(method.redelivered)
        record["ref"] = ref
        if not auto_ack:
            self.deliveries[ref] = (channel_name, method.delivery_tag, queue, record)
            self.unacked.append(ref)
        return record

    def step_publish(self, step):
        name = step.get("channel", "pub")
        channel = self.channel(name)
        result: dict[str, Any] = {"confirm": "ack"}
        try:
            channel.basic_publish(
                step.get("exchange", ""),
                step.get("routing_key", ""),
                step.get("body", "").encode(),
                make_properties(step.get("properties")),
                mandatory=step.get("mandatory", False),
            )
        except UnroutableError as error:
            returned = error.messages[0]
            result["returned"] = {
                "reply_code": returned.method.reply_code,
                "reply_text": returned.method.reply_text,
                "exchange": returned.method.exchange,
                "routing_key": returned.method.routing_key,
                "message": message_record(
                    returned.method.exchange,
                    returned.method.routing_key,
                    returned.properties,
                    returned.body,
                ),
            }
        except NackError:
            result["confirm"] = "nack"
        return result

    def step_get(self, step):
        name = step.get("channel", "c0")
        auto_ack = step.get("auto_ack", False)
        got: list[dict[str, Any]] = []
        label = step.get("as", "g")
        for _ in range(step.get("count", 1)):
            method, props, body = self.channel(name).basic_get(step["queue"], auto_ack=auto_ack)
            if method is None:
                break
            got.append(
                self.record_delivery(
                    f"{label}/{len(got)}", name, method, props, body, step["queue"], auto_ack
                )
            )
        return {"messages": got}

    def step_consume(self, step):
        name = step.get("channel", "c0")
        channel = self.channel(name)
        label, auto_ack = step["as"], step.get("auto_ack", False)
        state = {"channel": name, "queue": step["queue"], "messages": [], "closed": False}
        self.consumers[label] = state
        if "prefetch" in step or not any(s["op"] == "qos" for s in self.scenario["steps"]):
            channel.basic_qos(prefetch_count=step.get("prefetch", 0))

        def on_message(_channel, method, props, body):
            ref = f"{label}/{len(state['messages'])}"
            record = self.record_delivery(ref, name, method, props, body, step["queue"], auto_ack)
            state["messages"].append(record)

        try:
            channel.basic_consume(
                step["queue"],
                on_message,
                auto_ack=auto_ack,
                exclusive=step.get("exclusive", False),
                consumer_tag=label,
                arguments=step.get("arguments"),
            )
        except ChannelClosedByBroker:
            state["closed"] = True
            raise
        return {}

    def step_qos(self, step):
        self.channel(step.get("channel", "c0")).basic_qos(
            prefetch_count=step["prefetch"], global_qos=step.get("global", False)
        )
        return {}

    def step_settle(self, step):
        """Settle by delivery tag; a passive declaration shows whether the channel still lives."""
        name = step.get("channel", "c0")
        channel = self.channel(name)
        tag, multiple = step["tag"], step.get("multiple", False)
        outcome = step.get("outcome", "ack")
        for each in range(tag, max(tag, step.get("last", 0)) + 1):
            if outcome == "ack":
                channel.basic_ack(each, multiple=multiple)
            else:
                channel.basic_nack(each, multiple=multiple, requeue=outcome == "requeue")
        last = max(tag, step.get("last", 0))

        def settled(ref):
            of, number = self.deliveries[ref][:2]
            if of != name:
                return False
            if multiple:
                return not tag or number <= tag
            return tag <= number <= last

        self.unacked = [ref for ref in self.unacked if not settled(ref)]
        channel.exchange_declare("amq.direct", passive=True)
        return {}

    def step_cancel(self, step):
        state = self.consumers[step["as"]]
        self.channel(state["channel"]).basic_cancel(step["as"])
        return {}

    def settle(self, step):
        missing = []
        for ref in step["refs"]:
            if ref not in self.unacked:
                missing.append(ref)
                continue
            name, tag, _queue, _record = self.deliveries[ref]
            channel = self.channels[name]
            multiple = step.get("multiple", False)
            if step["op"] == "ack":
                channel.basic_ack(tag, multiple=multiple)
            elif step["op"] == "reject":
                channel.basic_reject(tag, requeue=step.get("requeue", False))
            else:
                channel.basic_nack(tag, multiple=multiple, requeue=step.get("requeue", False))
            if multiple:
                done = [
                    r
                    for r in self.unacked
                    if self.deliveries[r][0] == name and self.deliveries[r][1] <= tag
                ]
            else:
                done = [ref]
            self.unacked = [r for r in self.unacked if r not in done]
        return {"missing": missing} if missing else {}

    step_ack = step_reject = step_nack = settle

    def step_recover(self, step):
        name = step.get("channel", "c0")
        self.channel(name).basic_recover(requeue=True)
        self.unacked = [r for r in self.unacked if self.deliveries[r][0] != name]
        return {}

    def step_close_channel(self, step):
        self.drop_channel(step.get("channel", "c0"))
        return {}

    def step_depth(self, step):
        answer = self.channel("admin").queue_declare(step["queue"], passive=True)
        return {"ready": answer.method.message_count}

    def step_purge(self, step):
        answer = self.channel("admin").queue_purge(step["queue"])
        return {"purged": answer.method.message_count}

    def step_delete_queue(self, step):
        answer = self.channel("admin").queue_delete(step["queue"])
        self.unacked = [r for r in self.unacked if self.deliveries[r][2] != step["queue"]]
        return {"deleted_ready": answer.method.message_count}

    def step_delete_exchange(self, step):
        self.channel("admin").exchange_delete(step["exchange"])
        return {}

    def step_declare_queue(self, step):
        self.declare_queue(step["queue"])
        return {}

    def step_declare_exchange(self, step):
        self.declare_exchange(step["exchange"])
        return {}

    def step_bind(self, step):
        self.bind(step["binding"])
        return {}

    def step_unbind(self, step):
        self.bind(step["binding"], unbind=True)
        return {}

    def step_set_policy(self, step):
        self.put_policy(step["policy"])
        return {}

    def step_clear_policy(self, step):
        self.http.call("DELETE", self.api("policies", step["name"]))
        return {}

    def step_set_operator_policy(self, step):
        self.put_policy(step["policy"], "operator-policies")
        return {}

    def step_clear_operator_policy(self, step):
        self.http.call("DELETE", self.api("operator-policies", step["name"]))
        return {}

    def step_sleep(self, step):
        return {}

    def run_step(self, step):
        try:
            return getattr(self, "step_" + step["op"])(step)
        except ChannelClosedByBroker as error:
            text = error.reply_text.replace(self.vhost, "<vhost>")
            # the broker requeued whatever the failed channel held
            for name in [n for n, c in self.channels.items() if not c.is_open]:
                self.drop_channel(name)
            return {"error": {"code": error.reply_code, "text": text}}

    # ---- the whole thing

    def drain(self, queue):
        messages: list[dict[str, Any]] = []
        while True:
            try:
                method, props, body = self.channel("drain").basic_get(queue, auto_ack=True)
            except ChannelClosedByBroker:
                self.channels.pop("drain", None)
                return None
            if method is None:
                return messages
            record = message_record(method.exchange, method.routing_key, props, body)
            record["redelivered"] = bool(method.redelivered)
            messages.append(record)

    def depth(self, queue):
        try:
            return self.step_depth({"queue": queue})["ready"]
        except ChannelClosedByBroker:
            self.channels.pop("admin", None)
            return None

    def queue_names(self):
        names = {queue["name"] for queue in self.scenario.get("definitions", {}).get("queues", [])}
        names |= {
            step["queue"]["name"]
            for step in self.scenario["steps"]
            if step["op"] == "declare_queue"
        }
        return sorted(names)

    def execute(self):
        self.connect()
        try:
            self.clean()
            outcome: dict[str, Any] = {"steps": [], "depths": {}, "unacked": {}, "queues": {}}
            # A set-up failure of the topology is itself a recordable outcome.
            try:
                self.set_up()
            except ChannelClosedByBroker as error:
                return {
                    "setup_error": {
                        "code": error.reply_code,
                        "text": error.reply_text.replace(self.vhost, "<vhost>"),
                    }
                }
            self.channel("pub"), self.channel("c0"), self.channel("admin"), self.channel("drain")
            self.t0 = time.monotonic() + 0.15
            for index, step in enumerate(self.scenario["steps"]):
                delay = self.rng.uniform(0, self.jitter_ms) if self.jitter_ms else 0
                target = step["at_ms"] + delay
                self.wait_until(target)
                self.max_lag = max(self.max_lag, self.now_ms() - target)
                started = self.now_ms()
                result = self.run_step(step)
                self.max_lag = max(self.max_lag, self.now_ms() - started)
                if result:
                    outcome["steps"].append({"step": index, "op": step["op"], **result})
            self.wait_until(self.scenario["end_ms"])
            names = self.queue_names()
            for name in names:
                outcome["depths"][name] = self.depth(name)
            for ref in self.unacked:
                _channel, _tag, queue, record = self.deliveries[ref]
                if outcome["depths"].get(queue) is None:
                    continue  # the queue is gone and the message with it
                outcome["unacked"].setdefault(queue, []).append(
                    {"ref": ref, "body": record["body"]}
                )
            for label, state in self.consumers.items():
                outcome.setdefault("consumers", {})[label] = state["messages"]
            outcome = copy.deepcopy(outcome)
            # consumers must not compete with the drain
            for label, state in self.consumers.items():
                if not state["closed"] and self.channels.get(state["channel"]) is not None:
                    with suppress(AMQPError):
                        self.channels[state["channel"]].basic_cancel(label)
            self.max_lag = max(self.max_lag, self.now_ms() - self.scenario["end_ms"] - 40)
            for name in names:
                outcome["queues"][name] = self.drain(name)
                self.connection.process_data_events(time_limit=DRAIN_GAP_MS / 1000.0)
            self.connection.process_data_events(time_limit=SECOND_PASS_MS / 1000.0)
            second = {}
            for name in names:
                late = self.drain(name)
                if late:
                    second[name] = late
            if second:
                outcome["second_pass"] = second
            return outcome
        finally:
            try:
                for name in list(self.channels):
                    self.channels.pop(name)
                self.connection.close()
            except AMQPError:
                pass


# --------------------------------------------------------------------------
# pools of virtual hosts


class Pool:
    def __init__(self, broker, size, prefix=PREFIX):
        self.broker = broker
        self.vhosts: queue_mod.Queue[str] = queue_mod.Queue()
        http = Http(broker.http_port)
        existing = {item["name"] for item in http.call("GET", "/api/vhosts?columns=name")}
        for index in range(size):
            name = f"{prefix}-{index:02d}"
            if name not in existing:
                http.call("PUT", f"/api/vhosts/{quote(name)}", {})
                http.call(
                    "PUT",
                    f"/api/permissions/{quote(name)}/{quote(USER)}",
                    {"configure": ".*", "write": ".*", "read": ".*"},
                )
            self.vhosts.put(name)
        self.executor = cf.ThreadPoolExecutor(size)

    def run(self, scenario, jitter_ms=0, seed=0, attempts=4):
        """Run until a run is not disturbed by scheduling lag; return (outcome, lag)."""
        vhost = self.vhosts.get()
        try:
            for _ in range(attempts):
                run = Run(self.broker, scenario, vhost, jitter_ms, seed)
                outcome = run.execute()
                if run.max_lag <= MAX_LAG_MS:
                    return outcome, run.max_lag
            return None, MAX_LAG_MS
        finally:
            self.vhosts.put(vhost)

    def submit(self, *args, **kwargs):
        return self.executor.submit(self.run, *args, **kwargs)


def brokers():
    return [Broker(spec) for spec in BROKERS.split(",")]


def capture(scenarios, out_dir, size, exact=2, jittered=1, jitter_ms=20):
    """Record every scenario on every broker; keep those whose outcome is stable.

    Each scenario runs `exact` times on schedule and `jittered` times with every step
    delayed at random by up to `jitter_ms`.  All runs on one broker must agree.
    """
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {scenario["id"]: {} for scenario in scenarios}
    dropped = {}
    pools = [Pool(broker, size) for broker in brokers()]
    jobs = []
    for scenario in scenarios:
        for pool in pools:
            if pool.broker.version.startswith(tuple(scenario.get("skip_versions", ["-"]))):
                continue
            plan = [(0, 0)] * exact + [
                (jitter_ms, zlib.crc32(f"{scenario['id']}/{n}".encode()))
                for n in range(0 if scenario.get("no_jitter") else jittered)
            ]
            jobs.append(
                (
                    scenario,
                    pool.broker.version,
                    [pool.submit(scenario, jitter, seed) for jitter, seed in plan],
                )
            )
    for scenario, version, runs in jobs:
        try:
            results = [job.result() for job in runs]
        except Exception as error:  # noqa: BLE001 - report and go on
            dropped[scenario["id"]] = f"failed on {version}: {error!r}"
            continue
        outcomes = [outcome for outcome, _lag in results]
        if None in outcomes:
            dropped[scenario["id"]] = f"too much scheduling lag on {version}"
        elif len({json.dumps(outcome, sort_keys=True) for outcome in outcomes}) != 1:
            dropped[scenario["id"]] = f"not reproducible on {version}"
        else:
            found[scenario["id"]][version] = outcomes[0]
    kept = []
    for scenario in scenarios:
        if scenario["id"] in dropped:
            continue
        of_versions = found[scenario["id"]]
        document = {**scenario, "difference": difference(of_versions), "outcomes": of_versions}
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        (folder / (scenario["id"] + ".json")).write_text(text, "utf-8")
        kept.append(scenario["id"])
    say(f"kept {len(kept)}, dropped {len(dropped)}")
    for name, reason in dropped.items():
        say(f"  dropped {name} {reason}")
    return kept, dropped


def load(paths):
    documents = []
    for path in paths:
        data = json.loads(Path(path).read_bytes())
        documents.extend(data if isinstance(data, list) else [data])
    return documents


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sub = parser.add_subparsers(dest="command", required=True)
    for name in ("run", "capture", "check"):
        command = sub.add_parser(name)
        command.add_argument("files", nargs="+")
        command.add_argument("--parallel", type=int, default=24)
        if name == "capture":
            command.add_argument("--out", required=True)
    options = parser.parse_args(argv)
    scenarios = load(options.files)
    if options.command == "capture":
        capture(scenarios, options.out, options.parallel)
        return 0
    failures = 0
    for broker in brokers():
        pool = Pool(broker, min(options.parallel, max(1, len(scenarios))))
        jobs = [pool.submit(scenario) for scenario in scenarios]
        for scenario, job in zip(scenarios, jobs, strict=True):
            outcome, lag = job.result()
            if options.command == "run":
                say(
                    json.dumps(
                        {
                            "id": scenario.get("id"),
                            "broker": broker.version,
                            "lag_ms": round(lag),
                            "outcome": outcome,
                        },
                        indent=1,
                        ensure_ascii=False,
                    )
                )
                continue
            recorded = scenario["outcomes"].get(broker.version)
            if recorded is not None and recorded != json.loads(json.dumps(outcome)):
                failures += 1
                say(f"DIFFERS {broker.version} {scenario['id']}")
    if options.command == "check":
        say(f"{failures} difference(s) in {len(scenarios)} scenario(s)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
