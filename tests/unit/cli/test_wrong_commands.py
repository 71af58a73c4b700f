"""Wrong commands: each is one line on stderr that names the place and the remedy, and status 2.

The list goes on in tests/e2e/client/test_wrong_commands.py, with a running job.
"""

import json
import shlex
import shutil
from pathlib import Path

import pytest

WRONG = """
    publsh x                                           | dlx | 'publish'
    queue list                                         | dlx | 'queues'
    queues lst                                         | dlx queues | 'list'
    clients channel list                               | dlx clients | 'channels'
    tables rebild                                      | dlx tables | 'rebuild'
    --verison                                          | dlx | '--version'
    queues show                                        | dlx queues show | NAME
    ack                                                | dlx ack | DELIVERY
    bindings declare orders                            | dlx bindings declare | DESTINATION
    bindings declare orders work k                     | dlx bindings declare | --routing-key
    bindings delete orders nope k                      | dlx bindings delete | --routing-key
    permissions set guest .*                           | dlx permissions set | WRITE
    queues list --vhots /                              | dlx queues list | '--vhost'
    run --accept-los                                   | dlx run | '--accept-loss'
    reject 1.0.0 --requeu                              | dlx reject | '--requeue'
    queues list --tables TABLES --vhost shp            | 'shp' | '/'
    queues list --tables TABLES --sort redy            | --sort | messages_ready
    queues list --tables TABLES --columns name,redy    | --columns | messages_ready
    queues list --tables TABLES -o jsn                 | --output | 'json'
    queues list --tables nowhere                       | nowhere | --tables
    queues peek biling --tables TABLES                 | 'biling' | 'billing'
    queues peek billing --count 0 --tables TABLES      | --count | x>=1
    queues peek billing --count many --tables TABLES   | --count | whole number
    queues show biling --tables TABLES                 | 'biling' | 'billing'
    exchanges show ordrs --tables TABLES               | 'ordrs' | 'orders'
    bindings show ordrs --tables TABLES                | 'ordrs' | 'orders'
    policies show nosuch --tables TABLES               | 'nosuch' | there are none
    clients channels show clrk --tables TABLES         | 'clrk' | 'clerk'
    clients connections show ana --tables TABLES       | 'ana' | 'anna'
    clients consumers show nobody --tables TABLES      | 'nobody' | there are none
    dead-letters list --queue biling --tables TABLES   | 'biling' | 'billing'
    dead-letters list --reason rejectd --tables TABLES | --reason | 'rejected'
    dead-letters list --since yesteday --tables TABLES | --since | yesterday
    dead-letters list --since 25:61 --tables TABLES    | --since | 07:07
    dead-letters list --where 'queu = 1' --tables TABLES | --where | "queue"
    dead-letters list --limit -1 --tables TABLES       | --limit | x>=0
    dead-letters show 9/9/9 --tables TABLES            | '9/9/9' | dlx dead-letters list
    dead-letters show nosuch --tables TABLES           | 'nosuch' | dlx dead-letters list
    dead-letters get 9/9/9 --tables TABLES             | '9/9/9' | dlx dead-letters list
    dead-letters get 0/0/0 --tables TABLES             | 0/0/0 | dlx dead-letters show 0/0/0
    quarantine show 5/5/5 --tables TABLES              | '5/5/5' | dlx quarantine list
    balance --vhost shp --tables TABLES                | 'shp' | '/'
    overview --vhost shp --tables TABLES               | 'shp' | '/'
    check nosuch.json                                  | nosuch.json | dlx check --help
    check .                                            | '.' | directory
    check /proc/self/mem                               | a file | Input/output error
    check broken.json                                  | not JSON | truncated
    check definitions.json --compat 3.11               | --compat | '3.10'
    route definitions.json ordrs k                     | 'ordrs' | 'orders'
    route definitions.json orders k --header x         | --header | NAME=VALUE
    diagram definitions.json --format mermad           | --format | 'mermaid'
    simulate . --engine sprk                           | --engine | 'spark'
    config check typo.toml                             | checkpont_location | 'checkpoint_location'
    config check bad.toml                              | bad.toml | line 1
    config check nosuch.toml                           | nosuch.toml | dlx config init
    run --config nosuch.toml                           | nosuch.toml | dlx config init
    doctor --config nosuch.toml                        | nosuch.toml | dlx config init
    kafka --port 99999                                 | --port | 65535
    publish                                            | --routing-key | --exchange
    publish x -k work --property expiratoin=5          | --property | 'expiration'
    publish x -k work --property priority=high         | --property | whole number
    publish x -k work --property priority=900          | --property | 255
    publish x -k work --property expiration            | --property | NAME=VALUE
    publish x -k work --header tenant                  | --header | NAME=VALUE
    publish x -k work --lines                          | --lines | omit BODY
    publish x -k work --user gest                      | 'gest' | 'guest'
    publish x -k work --vhost nosuch                   | 'nosuch' | '/'
    publish x -k work --timeout nan                    | --timeout | a week
    publish x -k work --timeout soon                   | --timeout | a number
    get work --lease forever                           | --lease | a number
    get work --message 1/0                             | --message | 1/0/42
    ack one                                            | DELIVERY | 1.0.0
    consume work --requeue                             | --requeue | command
    consume work --ack -- cat                          | --ack | omit
    consume work --idle -1                             | --idle | x>=0
    queues declare ''                                  | QUEUE | empty
    queues declare q --type quorm                      | --type | 'quorum'
    queues declare q -a x-mesage-ttl=5                 | --argument | 'x-message-ttl'
    queues declare q -a x-message-ttl                  | --argument | NAME=VALUE
    queues declare q -a 'x-message-ttl={5'             | --argument | JSON
    queues declare q -a n=1 -a n=2                     | --argument | twice
    exchanges declare x --type topik                   | --type | 'topic'
    bindings declare orders work --destination-type queu | --destination-type | 'queue'
    policies set p '^q' '{"mesage-ttl": 5}'            | DEFINITION | 'message-ttl'
    policies set p '^q' 'message-ttl=5'                | DEFINITION | {"message-ttl": 60000}
    policies set p '^q' '{}' --apply-to queus          | --apply-to | 'queues'
    policies set p '^q' '{}' --priority high           | --priority | whole number
    permissions set gest .* .* .*                      | 'gest' | 'guest'
    definitions plan nosuch.json                       | nosuch.json | does not exist
    definitions plan broken.json                       | broken.json | not JSON
    definitions import definitions.json --vhost nosuch | 'nosuch' | '/'
    queues list --tables TABLES --as-of 2020-01-01     | 2020-01-01 | history begins at 2020-09-13
    overview --tables TABLES --as-of 2020-01-01        | 2020-01-01 | history begins at 2020-09-13
    queues diff billing 2020-01-01 --tables TABLES     | 2020-01-01 | history begins at 2020-09-13
    dead-letters list --since 9999-12-31T23:59-12:00   | --since | '9999-12-31T23:59-12:00'
    dead-letters list --limit 99999999999999999999 --tables TABLES | --limit | 1000000000000000
    queues peek billing --count 99999999999999999999 --tables TABLES | --count | 1000000000000000
    queues list --tables GONE                          | events | restore
    dead-letters list --tables GONE                    | dead_letters | restore
    dead-letters show first --tables GONE              | messages | restore
    balance --tables GONE                              | this file of the table | restore
    query 'FROM events' --tables GONE                  | events | restore
    dead-letters list --where 'count > 0' --tables GONE | dead_letters | restore
    dead-letters export x.csv --tables GONE            | dead_letters | restore
    dead-letters groups --tables GONE                  | dead_letters | restore
    queues list --tables CORRUPT                       | damaged | restore
    dead-letters summary --tables CORRUPT              | damaged | restore
    balance --tables CORRUPT                           | damaged | restore
    dead-letters export . --format csv --tables TABLES | . | is a folder
    dead-letters export /dev/null --format csv --force --tables TABLES | /dev/null | regular file
    queues list --tables TORN                          | 00000000000000000001.json | restore
    tables info --tables TORN                          | 00000000000000000001.json | restore
    tables rebuild --tables TORN                       | 00000000000000000001.json | restore
    queues list --config .                             | is a folder | dlx.toml
    queues list --config /dev/null                     | /dev/null | regular file
    config completion bsh                              | bsh | 'bash'
    demo --seconds soon                                | --seconds | a number
"""
"""Command | the place that the line names | the remedy that it names."""

ROWS = [[part.strip() for part in line.rsplit("|", 2)] for line in WRONG.strip().splitlines()]


@pytest.fixture
def files(write, tmp_path):
    """A definitions file and a configuration that are valid, and some that are not."""
    orders = {"name": "orders", "vhost": "/", "type": "topic", "durable": True}
    write(json.dumps({"vhosts": [{"name": "/"}], "exchanges": [orders]}))
    write('{"queues": [', "broken.json")
    write("", "dlx.toml")
    write("[job]\ncheckpont_location = 'x'\n", "typo.toml")
    write("[job\n", "bad.toml")


@pytest.fixture(scope="session")
def places(shop_root, tmp_path_factory):
    """Word of a command -> the tables that it means: whole ones, and damaged copies."""
    found = {"TABLES": str(shop_root)}
    for name in ("GONE", "CORRUPT", "TORN"):
        root = tmp_path_factory.mktemp("damaged") / "tables"
        shutil.copytree(shop_root, root)
        found[name] = str(root)
    for file in Path(found["GONE"]).glob("*/*.parquet"):
        file.unlink()
    for file in Path(found["CORRUPT"]).glob("*/*.parquet"):
        file.write_bytes(b"rubbish" * 10)
    for file in Path(found["TORN"]).glob("*/_delta_log/*1.json"):
        file.write_text('{"add": ')
    return found


@pytest.mark.parametrize(("command", "place", "remedy"), ROWS, ids=[row[0] for row in ROWS])
@pytest.mark.usefixtures("files")
def test_a_wrong_command_is_one_line_that_names_the_place_and_the_remedy(
    dlx, places, command, place, remedy
):
    arguments = [places.get(word, word) for word in shlex.split(command)]

    status, out, err = dlx(*arguments)

    assert (status, out) == (2, "")
    [line] = err.splitlines()
    assert place in line
    assert remedy in line
