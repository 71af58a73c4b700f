"""`dlx.toml`: the typed, documented configuration file of the pipeline.

`load_config` gives a job its `JobConfig`; `show_config` prints one; `outcome_hash` says whether two
give the same results for the same records. Importing this package loads no Spark.
"""

from streaming.config.clients import jvm_properties, librdkafka_properties
from streaming.config.flow import Absolute, FlowSettings, Relative
from streaming.config.inputs import InputSettings, TopicMapping
from streaming.config.job import JobSettings
from streaming.config.kafka import KafkaSettings
from streaming.config.loading import load_config, parse_config, read_config
from streaming.config.model import JobConfig
from streaming.config.outbound import OutboundSettings
from streaming.config.outcome import outcome_changes, outcome_hash, outcome_settings
from streaming.config.secrets import Secret, SecretText, reveal
from streaming.config.selectors import (
    JsonValue,
    RecordField,
    RecordHeader,
    RecordKey,
    Template,
)
from streaming.config.tables import TablesSettings
from streaming.config.template import settings_reference, show_config
from streaming.config.types import InvalidConfigError
from streaming.config.vhosts import UserSettings, VhostSettings
