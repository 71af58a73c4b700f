"""The Spark settings of shared storage, from the storage options that tables have.

Hadoop's names differ from those of deltalake and obstore, so that one set of options in
`tables.storage_options` serves all three. `job.spark_properties` overrides each of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

S3A_OPTIONS: Final = {
    "aws_access_key_id": "access.key",
    "aws_secret_access_key": "secret.key",
    "aws_session_token": "session.token",
    "aws_endpoint_url": "endpoint",
    "aws_endpoint": "endpoint",
    "aws_region": "endpoint.region",
}
"""deltalake's storage options -> Hadoop's properties, after `fs.s3a.`."""

_OAUTH: Final = "spark.hadoop.fs.azure.account.oauth"
_LOGIN: Final = "https://login.microsoftonline.com"


def storage_settings(which: Sequence[str], options: Mapping[str, str]) -> dict[str, str]:
    """The settings with which Spark reaches the same storage as deltalake.

    Args:
        which: the sets of jars in use.
        options: storage options as deltalake takes them; may hold secrets.
    """
    known = {name.lower(): value for name, value in options.items()}
    makers: dict[str, Callable[[Mapping[str, str]], dict[str, str]]] = {
        "s3": _s3a_settings,
        "azure": _abfs_settings,
        "gcs": _gs_settings,
    }
    return {
        name: value
        for storage in which
        if storage in makers
        for name, value in makers[storage](known).items()
    }


def _s3a_settings(known: Mapping[str, str]) -> dict[str, str]:
    prefix = "spark.hadoop.fs.s3a."
    settings = {
        f"{prefix}{hadoop}": known[ours] for ours, hadoop in S3A_OPTIONS.items() if ours in known
    }
    if "aws_session_token" in known:
        settings[f"{prefix}aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        )
    if f"{prefix}endpoint" in settings:  # only Amazon has a host name for each bucket
        settings[f"{prefix}path.style.access"] = "true"
    if known.get("aws_allow_http", "").lower() == "true":
        settings[f"{prefix}connection.ssl.enabled"] = "false"
    return settings


def _abfs_settings(known: Mapping[str, str]) -> dict[str, str]:
    plain = {
        name.removeprefix("azure_").removeprefix("storage_"): value
        for name, value in known.items()
        if name.startswith("azure_")
    }

    def first(*names: str) -> str | None:
        return next((plain[name] for name in names if plain.get(name)), None)

    prefix = "spark.hadoop.fs.azure."
    # Java's own TLS: the native one needs a jar of its own.
    settings = {f"{prefix}ssl.channel.mode": "Default_JSSE"}
    key = first("account_key", "access_key", "master_key")
    token = first("sas_token", "sas_key")
    client, secret = first("client_id"), first("client_secret")
    tenant = first("tenant_id", "authority_id")
    if key:
        settings[f"{prefix}account.key"] = key
    elif token:
        settings[f"{prefix}account.auth.type"] = "SAS"
        settings[f"{prefix}sas.fixed.token"] = token.removeprefix("?")
    elif client and secret and tenant:
        login = first("authority_host") or _LOGIN
        settings[f"{prefix}account.auth.type"] = "OAuth"
        settings[f"{_OAUTH}.provider.type"] = (
            "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
        )
        settings[f"{_OAUTH}2.client.id"] = client
        settings[f"{_OAUTH}2.client.secret"] = secret
        settings[f"{_OAUTH}2.client.endpoint"] = f"{login.rstrip('/')}/{tenant}/oauth2/token"
    endpoint = urlsplit(first("endpoint") or "")
    if endpoint.path.strip("/"):  # an emulator: the account is in the path, there are only blobs
        settings[f"{prefix}abfs.endpoint"] = endpoint.netloc
        settings[f"{prefix}account.hns.enabled"] = "false"
        settings[f"{prefix}fns.account.service.type"] = "BLOB"
    if endpoint.scheme == "http" and first("allow_http") == "true":
        settings[f"{prefix}always.use.https"] = "false"
        # Hadoop's other HTTP client insists on TLS.
        settings[f"{prefix}networking.library"] = "JDK_HTTP_URL_CONNECTION"
    return settings


def _gs_settings(known: Mapping[str, str]) -> dict[str, str]:
    plain = {name.removeprefix("google_"): value for name, value in known.items()}

    def first(*names: str) -> str | None:
        return next((plain[name] for name in names if plain.get(name)), None)

    prefix = "spark.hadoop.fs.gs."
    classes = "com.google.cloud.hadoop.fs.gcs.GoogleHadoop"
    settings = {
        f"{prefix}impl": f"{classes}FileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": f"{classes}FS",
        # Hadoop's own default is "64m", which this connector cannot read.
        f"{prefix}block.size": "67108864",
        # Each open file takes 33 MB by default; those of a checkpoint are many and small.
        f"{prefix}outputstream.buffer.size": "65536",
        f"{prefix}outputstream.pipe.buffer.size": "65536",
        f"{prefix}outputstream.upload.chunk.size": "2097152",
    }
    key_file = first("service_account", "service_account_path", "application_credentials")
    if (first("skip_signature") or "").lower() == "true":
        settings[f"{prefix}auth.type"] = "UNAUTHENTICATED"
    elif key_file:
        settings[f"{prefix}auth.type"] = "SERVICE_ACCOUNT_JSON_KEYFILE"
        settings[f"{prefix}auth.service.account.json.keyfile"] = key_file
    else:  # as deltalake does: the file of gcloud, or the account of the machine
        settings[f"{prefix}auth.type"] = "APPLICATION_DEFAULT"
    address = first("base_url")
    if address:
        settings[f"{prefix}storage.root.url"] = address
    return settings
