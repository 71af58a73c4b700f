"""The console: pages about the tables of a job, in a browser.

    browser --> logins (who, from where) --> a page's function --> streaming.queries --> template

A page is a function in `streaming.console.pages`, a template of the same name, and one entry of
`PAGES` in `streaming.console.app`:

    # streaming/console/pages/quarantine.py
    def quarantine(view: View) -> Answer:
        view.command = "dlx quarantine list"
        return {"rows": list_quarantine(view.tables)}

    # streaming/console/templates/quarantine.html
    {% extends "base.html" %}
    {% block content %}...{{ row.cause }}...{% endblock %}

    # streaming/console/app.py
    Page("/quarantine", quarantine, nav=say("Quarantine"), key="u"),

- `view.tables` and `view.queries` are open as of the instant in the URL, show only the vhosts of
  the user, and are closed after the template is rendered. `view.text`, `view.number` and
  `view.instant` read the parameters of the URL, which are the whole state of a page.
- `view.command` is the `dlx` command with the same answer; build it with `view.dlx(...)`, which
  quotes and adds `--as-of` and `--vhost`.
- What people read is marked: `{% trans %}` and `_("...")` in templates, `say(...)` in Python, with
  named values; `python -m tools.docs translate` collects it.
- Templates escape every value, control characters too. Never use `|safe` for what is in a table.
  `url(path, name=value)` writes a link that keeps the instant and the vhost.
- `view.require_read(vhost, queue)` refuses what the user may not read; call it before a body is
  shown. An action is a `Page` with `role="operator"` or `"editor"`: it answers POST only, and
  returns `Redirect(path)`.
- A page that changes with each batch needs nothing: the content is fetched again after a batch.
- A function raises `Refused` with a status, or QueryError, and the user sees its text.
"""
