"""Every page of the console, in the order of the navigation."""

from typing import Final

from streaming.console.page import Page
from streaming.console.pages.alerts import alerts
from streaming.console.pages.audit import audit
from streaming.console.pages.balance import balance
from streaming.console.pages.causes import causes
from streaming.console.pages.changes import changes
from streaming.console.pages.clients import channels, connections, consumers, exchanges
from streaming.console.pages.compare import compare
from streaming.console.pages.definitions import definitions, plan
from streaming.console.pages.find import find
from streaming.console.pages.goto import goto
from streaming.console.pages.health import health
from streaming.console.pages.message import message, message_body, message_scenario
from streaming.console.pages.now import now
from streaming.console.pages.quarantine import quarantine
from streaming.console.pages.queue import queue
from streaming.console.pages.queues import queues
from streaming.console.pages.redrives import (
    approve_redrive,
    control_redrive,
    forget_plan,
    redrive,
    redrive_plan,
    redrives,
    seal_plan,
    send_redrive,
)
from streaming.console.pages.search import export_search, forget_view, save_view, search
from streaming.console.pages.sql import export_sql, sql
from streaming.console.pages.topology import topology
from streaming.console.pages.topology_changes import topology_changes
from topology.sentences import say

PAGES: Final = (
    Page("/", now, nav=say("Now"), key="n"),
    Page("/queues", queues, nav=say("Queues"), key="q"),
    Page("/queue", queue),
    Page("/changes", changes),
    Page("/exchanges", exchanges, name=say("Exchanges")),
    Page("/connections", connections, name=say("Connections")),
    Page("/channels", channels, name=say("Channels")),
    Page("/consumers", consumers, name=say("Consumers")),
    Page("/topology", topology, nav=say("Topology"), key="t", scripts="'wasm-unsafe-eval'"),
    Page("/topology/changes", topology_changes, scripts="'wasm-unsafe-eval'"),
    Page("/balance", balance, nav=say("Balance"), key="b"),
    Page("/definitions", definitions, nav=say("Definitions"), key="d"),
    Page("/definitions/plan", plan, is_action=True, scripts="'wasm-unsafe-eval'"),
    Page("/search", search, nav=say("Search"), key="s"),
    Page("/search/export", export_search, is_file=True),
    Page("/search/save", save_view, is_action=True),
    Page("/search/forget", forget_view, is_action=True),
    Page("/causes", causes, nav=say("Causes"), key="c"),
    Page("/find", find),
    Page("/goto", goto),
    Page("/message", message),
    Page("/compare", compare),
    Page("/message/body", message_body, is_file=True),
    Page("/message/scenario", message_scenario, is_file=True),
    Page("/redrives", redrives, nav=say("Redrives"), key="r"),
    Page("/redrive", redrive),
    Page("/redrive/plan", redrive_plan),
    Page("/redrive/send", send_redrive, role="operator", is_action=True),
    Page("/redrive/seal", seal_plan, role="operator", is_action=True),
    Page("/redrive/approve", approve_redrive, role="operator", is_action=True),
    Page("/redrive/forget", forget_plan, role="operator", is_action=True),
    Page("/redrive/control", control_redrive, role="operator", is_action=True),
    Page("/sql", sql, nav=say("SQL"), key="l", is_for_administrators=True),
    Page("/sql/export", export_sql, is_file=True),
    Page("/audit", audit, nav=say("Audit"), key="a"),
    Page("/health", health, nav=say("Health"), key="h"),
    Page("/alerts", alerts, name=say("Alerts")),
    Page("/quarantine", quarantine, name=say("Quarantine"), is_for_administrators=True),
)
"""Every page of the console, in the order of the navigation."""
