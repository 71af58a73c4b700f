"""Spark reaches the storage that tables are in, with the same options."""

import re

import pytest

from streaming.config import parse_config
from streaming.embedded.jvm.pinned_jars import JarSet
from streaming.spark.session import session_config
from streaming.spark.settings import quiet_settings, streaming_settings
from streaming.spark.storage_settings import storage_settings

AZURE = "spark.hadoop.fs.azure."
ACCOUNT = {"AZURE_STORAGE_ACCOUNT_NAME": "account"}
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def test_without_shared_storage_there_are_no_settings():
    assert storage_settings((), {"AWS_REGION": "eu-central-1", **ACCOUNT}) == {}


def test_options_of_s3_have_the_names_of_hadoop():
    options = {"AWS_ACCESS_KEY_ID": "a", "aws_secret_access_key": "b", "AWS_ENDPOINT_URL": "http:"}

    assert storage_settings(("s3",), {**options, "AWS_ALLOW_HTTP": "true"}) == {
        "spark.hadoop.fs.s3a.access.key": "a",
        "spark.hadoop.fs.s3a.secret.key": "b",
        "spark.hadoop.fs.s3a.endpoint": "http:",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"azure_storage_account_key": "k"}, {"account.key": "k"}),
        ({"AZURE_STORAGE_ACCESS_KEY": "k"}, {"account.key": "k"}),
        (
            {"AZURE_STORAGE_SAS_TOKEN": "?sv=1&sig=2"},
            {"account.auth.type": "SAS", "sas.fixed.token": "sv=1&sig=2"},
        ),
        (
            {"AZURE_CLIENT_ID": "i", "AZURE_CLIENT_SECRET": "s", "AZURE_TENANT_ID": "t"},
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": (
                    "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
                ),
                "account.oauth2.client.id": "i",
                "account.oauth2.client.secret": "s",
                "account.oauth2.client.endpoint": (
                    "https://login.microsoftonline.com/t/oauth2/token"
                ),
            },
        ),
        (
            {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1/account", "AZURE_ALLOW_HTTP": "true"},
            {
                "abfs.endpoint": "127.0.0.1:1",
                "account.hns.enabled": "false",
                "fns.account.service.type": "BLOB",
                "always.use.https": "false",
                "networking.library": "JDK_HTTP_URL_CONNECTION",
            },
        ),
    ],
)
def test_options_of_azure_have_the_names_of_hadoop(options, settings):
    assert storage_settings(("azure",), {**ACCOUNT, **options}) == {
        f"{AZURE}ssl.channel.mode": "Default_JSSE",
        **{f"{AZURE}{name}": value for name, value in settings.items()},
    }


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {"auth.type": "APPLICATION_DEFAULT"}),
        (
            {"GOOGLE_SERVICE_ACCOUNT": "/key.json"},
            {
                "auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "auth.service.account.json.keyfile": "/key.json",
            },
        ),
        (
            {"google_application_credentials": "/key.json"},
            {
                "auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "auth.service.account.json.keyfile": "/key.json",
            },
        ),
        (
            {"GOOGLE_BASE_URL": "http://127.0.0.1:1", "GOOGLE_SKIP_SIGNATURE": "true"},
            {"auth.type": "UNAUTHENTICATED", "storage.root.url": "http://127.0.0.1:1"},
        ),
    ],
)
def test_options_of_google_have_the_names_of_hadoop(options, settings):
    classes = "com.google.cloud.hadoop.fs.gcs.GoogleHadoop"

    assert storage_settings(("gcs",), options) == {
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": f"{classes}FS",
        "spark.hadoop.fs.gs.impl": f"{classes}FileSystem",
        "spark.hadoop.fs.gs.block.size": "67108864",
        "spark.hadoop.fs.gs.outputstream.buffer.size": "65536",
        "spark.hadoop.fs.gs.outputstream.pipe.buffer.size": "65536",
        "spark.hadoop.fs.gs.outputstream.upload.chunk.size": "2097152",
        **{f"spark.hadoop.fs.gs.{name}": value for name, value in settings.items()},
    }


def test_spark_masks_every_secret_of_shared_storage(tmp_path):
    pattern = re.compile(quiet_settings(tmp_path)["spark.redaction.regex"])
    options = {
        "aws_secret_access_key": "hidden",
        "aws_session_token": "hidden",
        "azure_client_id": "i",
        "azure_client_secret": "hidden",
        "azure_tenant_id": "t",
    }
    found = {
        **storage_settings(("s3", "azure"), options),
        **storage_settings(("azure",), {"azure_storage_account_key": "hidden"}),
    }
    sas = storage_settings(("azure",), {"azure_storage_sas_key": "hidden"})
    shown = [name for name, value in (*found.items(), *sas.items()) if value == "hidden"]

    assert len(shown) == 5
    shown += [f"{AZURE}account.key.a.dfs.core.windows.net", f"{AZURE}sas.c.a.blob.core.windows.net"]
    assert [name for name in shown if not pattern.search(name)] == []


@pytest.mark.parametrize(
    ("location", "storage", "manager"),
    [
        ("/data/checkpoints", (), "FileSystemBasedCheckpointFileManager"),
        ("s3://bucket/c", ("s3",), "AbortableStreamBasedCheckpointFileManager"),
        ("abfss://c@account.dfs.core.windows.net/c", ("azure",), None),
        ("gs://bucket/c", ("gcs",), None),
        ("hdfs://namenode:8020/c", (), None),
    ],
)
def test_each_storage_has_its_jars_and_its_way_to_write_logs(
    location: str, storage: tuple[JarSet, ...], manager: str | None
):
    words = ", ".join(f'"{each}"' for each in storage)
    config = parse_config(f'job.checkpoint_location = "{location}"\njob.storage = [{words}]\n')

    session = session_config(config, {})
    settings = streaming_settings(
        2, local_checkpoints=session.local_checkpoints, s3_checkpoints=session.s3_checkpoints
    )

    assert session.storage == storage
    assert settings.get(MANAGER, "").rpartition(".")[2] == (manager or "")
