"""`dlx.toml`: the one typed, documented file of the pipeline.

`load_config` gives a job its `JobConfig`; `show_config` prints one; `outcome_hash` says whether two
give the same records the same results. Importing this loads no Spark and reads nothing.
"""

from streaming.config.clients import jvm_properties, librdkafka_properties
from streaming.config.errors import InvalidConfigError
from streaming.config.flow import FlowSettings
from streaming.config.inputs import InputSettings, RecordHeader, RecordKey, Selector, TopicMapping
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.loading import load_config, parse_config, read_config
from streaming.config.model import JobConfig
from streaming.config.outbound import OutboundSettings, alive_topic
from streaming.config.outcome import outcome_changes, outcome_hash, outcome_settings
from streaming.config.secrets import Secret, SecretText, reveal
from streaming.config.tables import TablesSettings
from streaming.config.template import show_config
from streaming.config.vhosts import UserSettings, VhostSettings
from streaming.config.watermark import Absolute, Relative, Watermark

__all__ = [
    "Absolute",
    "FlowSettings",
    "InputSettings",
    "InvalidConfigError",
    "JobConfig",
    "JobSettings",
    "KafkaSettings",
    "OutboundSettings",
    "RecordHeader",
    "RecordKey",
    "Relative",
    "Secret",
    "SecretText",
    "Selector",
    "TablesSettings",
    "TopicMapping",
    "UserSettings",
    "VhostSettings",
    "Watermark",
    "alive_topic",
    "jvm_properties",
    "librdkafka_properties",
    "load_config",
    "outcome_changes",
    "outcome_hash",
    "outcome_settings",
    "parse_config",
    "read_config",
    "reveal",
    "show_config",
]
