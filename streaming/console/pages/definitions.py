"""Definitions: the policies that apply, what is probably a mistake, and what an import would do."""

from typing import Final

from streaming.console.page import PAGE_ROWS, Answer, Refused, View
from streaming.console.pages.topology import referred, topology_address
from streaming.console.pages.topology_changes import shown_as
from streaming.console.pages.topology_graph import (
    Picture,
    before_and_after,
    dot,
    imported,
)
from streaming.queries.vhosts.listings import policy_rows, settings_rows
from topology.analysis.diagram import draw
from topology.declarations import BindingEnd, Definitions
from topology.definitions.change_plan import declared_as, plan_import
from topology.definitions.load import examine
from topology.errors import Problem
from topology.findings import KINDS
from topology.sentences import say

MAX_FINDINGS: Final = 500


def definitions(view: View) -> Answer:
    """Show policies, the settings that result, and findings."""
    view.command = view.dlx("policies", "list")
    vhosts = {name: each for name, each in view.declared.items() if view.vhost in {None, name}}
    wanted = view.text("name", "") or ""
    rows = [
        row
        for row in view.of_topology("settings", lambda: settings_rows(view.declared))
        if row["vhost"] in vhosts and wanted.lower() in row["name"].lower()
    ]
    findings = [(name, one, KINDS[one.code].remedy) for name in vhosts for one in view.lint(name)]
    begin = (view.page - 1) * PAGE_ROWS
    return {
        "policies": policy_rows(vhosts),
        "rows": rows[begin : begin + PAGE_ROWS],
        "total": len(rows),
        "size": PAGE_ROWS,
        "name": wanted,
        "findings": findings[:MAX_FINDINGS],
        "found": len(findings),
        "vhosts": list(view.declared),
    }


def plan(view: View) -> Answer:
    """Show what importing a document would do to one vhost; nothing is changed."""
    vhost = view.form.get("vhost", "/")
    if vhost not in view.declared:
        raise Refused(404, say("There is no vhost %(vhost)s that you may see.", vhost=repr(vhost)))
    view.title = say("Plan of an import")
    view.command = view.dlx(
        *("definitions", "plan", "definitions.json", "--vhost", vhost),
        vhost=False,
        as_of=False,
        tables=False,
    )
    live = view.declared[vhost].definitions()
    existing: list[BindingEnd] = [
        *(("exchange", each.name) for each in live.exchanges),
        *(("queue", each.name) for each in live.queues),
    ]
    found = examine(view.form.get("document", ""), default_vhost=vhost, existing={vhost: existing})
    problems: list[Problem] = [one for one in found.problems if one.vhost in {None, vhost}]
    wanted = found.loaded.vhosts.get(vhost, Definitions())
    changes = [] if problems else plan_import(live, wanted, vhost)
    created = declared_as(wanted)
    pictures: tuple[Picture, ...] = ()
    if not problems:
        after = imported(live, wanted)
        pictures = before_and_after(draw(referred(live)), draw(referred(after)))
    return {
        "of_vhost": vhost,
        "graphs": [
            dot(one, lambda kind, name: topology_address(view, vhost, kind, name), view.language)
            for one in pictures
            if any(each.spots for each in pictures)
        ],
        "problems": problems,
        "changes": [
            (one, one.detail or shown_as(created.get((one.kind, one.name), {})))
            for one in changes
            if one.effect != "same"
        ],
        "same": sum(one.effect == "same" for one in changes),
        "skipped": [one for one in found.loaded.skipped if one.vhost in {None, vhost}],
    }
