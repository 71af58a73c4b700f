"""Where commands find the configuration of a job and its tables."""

import os

import pytest
import typer.main

from streaming.cli.main import COMMANDS, build_app
from streaming.user_folders import demo_folder, last_demo, remember_demo

JOB_COMMANDS = (
    ("get", "q"),
    ("publish", "x", "-k", "work"),
    ("consume", "q"),
    ("ack", "1.0.0"),
    ("reject", "1.0.0"),
    ("queues", "purge", "q"),
    ("definitions", "export"),
    ("policies", "clear", "p"),
)
TABLE_COMMANDS = (
    ("balance",),
    ("dead-letters", "list"),
    ("dead-letters", "show", "0/0/0"),
    ("queues", "list"),
    ("queues", "peek", "q"),
    ("tables", "info"),
    ("tables", "rebuild"),
    ("spark", "sql"),
    ("config", "check"),
)
ALL_COMMANDS = JOB_COMMANDS + TABLE_COMMANDS


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty working directory."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def config(shop_root):
    """A function that writes a configuration of the shop's tables, and returns its path."""

    def write(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'[job]\ntables_location = "{shop_root}"\n')
        return file

    return write


@pytest.mark.parametrize("command", [*ALL_COMMANDS, ("run",)], ids=" ".join)
def test_without_a_configuration_one_line_names_every_remedy(dlx, command):
    status, out, err = dlx(*command)

    assert (status, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith("dlx.toml: ")
    for remedy in ("dlx config init", "--config", "DLX_CONFIG", "dlx demo"):
        assert remedy in line


@pytest.mark.parametrize("command", [*ALL_COMMANDS, ("run",)], ids=" ".join)
def test_a_missing_file_is_reported_with_the_option_that_named_it(
    dlx, command, config, here, monkeypatch
):
    config(here / "dlx.toml")  # it must not be taken instead

    by_option = dlx(*command, "--config", "shop.toml")
    monkeypatch.setenv("DLX_CONFIG", "other.toml")
    by_variable = dlx(*command)

    assert by_option[:2] == by_variable[:2] == (2, "")
    assert by_option[2].startswith("--config: shop.toml: no such file; ")
    assert by_variable[2].startswith("DLX_CONFIG: other.toml: no such file; ")


def test_a_folder_in_place_of_a_file_is_reported_with_the_file_in_it(dlx, here):
    status, out, err = dlx("balance", "--config", here)

    assert (status, out) == (2, "")
    assert err == f"--config: {here}: is a folder; name the file in it: {here / 'dlx.toml'}\n"


@pytest.mark.parametrize(
    ("option", "variable", "in_folder", "of_demo", "taken"),
    [
        (True, True, True, True, "option"),
        (False, True, True, True, "variable"),
        (False, False, True, True, "folder"),
        (False, False, False, True, "demo"),
    ],
)
def test_the_first_configuration_of_four_places_is_taken(
    dlx, config, tmp_path, here, monkeypatch, option, variable, in_folder, of_demo, taken
):
    files = {
        "option": tmp_path / "option.toml",
        "variable": tmp_path / "variable.toml",
        "folder": here / "dlx.toml",
        "demo": tmp_path / "demo" / "dlx.toml",
    }
    config(files[taken])
    for place, file in files.items():
        if place != taken:
            file.parent.mkdir(exist_ok=True)
            file.write_text("not TOML")
    if variable:
        monkeypatch.setenv("DLX_CONFIG", str(files["variable"]))
    if not in_folder:
        files["folder"].unlink()
    if of_demo:
        remember_demo(files["demo"])
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))

    status, out, err = dlx("balance", *(("--config", files["option"]) if option else ()))

    assert (status, "billing" in out) == (0, True)
    assert err == (f"using the last demo: {files['demo']}\n" if taken == "demo" else "")


def test_the_home_folder_of_a_demo_is_abbreviated(dlx, config, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    remember_demo(config(tmp_path / "tried" / "dlx.toml"))

    assert dlx("balance")[2] == "using the last demo: ~/tried/dlx.toml\n"


def test_relative_tables_start_at_the_folder_of_their_configuration(dlx, shop_root, tmp_path):
    file = tmp_path / "dlx.toml"
    file.write_text(f'[job]\ntables_location = "{os.path.relpath(shop_root, tmp_path)}"\n')

    status, out, _ = dlx("queues", "list", "--config", file)

    assert (status, "billing" in out) == (0, True)


def test_tables_alone_need_no_configuration(dlx, shop_root):
    assert dlx("balance", "--tables", shop_root)[0] == 0


def test_tables_win_over_those_of_a_configuration(dlx, shop_root, here):
    (here / "dlx.toml").write_text('[job]\ntables_location = "elsewhere"\n')

    assert dlx("balance", "--tables", shop_root, "--config", "dlx.toml")[0] == 0


def test_the_vhost_comes_from_the_environment(dlx, shop_root, monkeypatch):
    monkeypatch.setenv("DLX_VHOST", "other")
    of_other = dlx("queues", "list", "--tables", shop_root)
    given = dlx("queues", "list", "--vhost", "/", "--tables", shop_root)
    monkeypatch.delenv("DLX_VHOST")
    of_all = dlx("queues", "list", "--tables", shop_root)

    assert "billing" not in of_other[1]
    assert "billing" in given[1]
    assert "billing" in of_all[1]


def test_a_job_is_never_run_with_the_configuration_of_the_demo(dlx, config, tmp_path):
    remember_demo(config(tmp_path / "demo" / "dlx.toml"))

    status, _, err = dlx("run")

    assert status == 2
    assert err.startswith("dlx.toml: no such file here; ")


def test_the_defaults_are_shown_although_there_is_a_demo(dlx, config, tmp_path, monkeypatch):
    remember_demo(config(tmp_path / "demo" / "dlx.toml"))
    _, defaults, err = dlx("config", "show")
    monkeypatch.setenv("DLX_CONFIG", str(tmp_path / "demo" / "dlx.toml"))
    _, named, _ = dlx("config", "show")

    assert ('tables_location = "tables"' in defaults, err) == (True, "")
    assert named != defaults


def test_a_demo_whose_files_are_gone_is_forgotten(config, tmp_path):
    file = config(tmp_path / "demo" / "dlx.toml")
    remember_demo(file)
    assert last_demo() == file

    file.unlink()
    assert last_demo() is None

    usual = config(demo_folder() / "dlx.toml")
    assert last_demo() == usual


def leaves(command, path=()):
    """Every command below a group, with its words."""
    for name, child in getattr(command, "commands", {}).items():
        yield from leaves(child, (*path, name))
    if not hasattr(command, "commands"):
        yield path, {option for each in command.params for option in each.opts}


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        ("Talk to a running job", {"--config"}),
        ("Query the tables", {"--config"}),
    ],
)
def test_every_command_of_a_section_has_the_shared_options(section, wanted):
    root = typer.main.get_command(build_app(COMMANDS[section]))

    found = dict(leaves(root))

    assert found
    assert {
        path: wanted - options for path, options in found.items() if not wanted <= options
    } == {}


def test_every_command_that_reads_tables_takes_them_alone():
    root = typer.main.get_command(build_app())
    found = {path: options for path, options in leaves(root) if "--tables" in options}

    assert {path for path, options in found.items() if "--config" not in options} == set()
    assert {
        ("balance",),
        ("dead-letters", "list"),
        ("queues", "list"),
        ("spark", "sql"),
    } <= found.keys()
