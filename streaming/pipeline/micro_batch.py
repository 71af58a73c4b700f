"""A batch, from Spark's rows to the commit of the ledger, and what follows it.

Replay: Spark runs a batch again if it did not log its end. The stages write the same files and
return the same reports, and tables that have the batch are skipped (`ledger.write.table_writer`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame

from streaming.broker.config import CORE_VERSION
from streaming.contents.revived import put_back
from streaming.ledger.batch_detail import BatchDetail, BatchRow
from streaming.ledger.schema.schemas import LEDGER
from streaming.ledger.write.batch_row import totals
from streaming.ledger.write.ledger import Ledger
from streaming.pipeline.checkpoint.checkpoint import Checkpoint
from streaming.pipeline.clock.job_clock import JobClock
from streaming.pipeline.clock.trigger import Ticks, Trigger
from streaming.pipeline.flow.control import FlowControl
from streaming.pipeline.housekeeping import Housekeeping
from streaming.pipeline.lane_answers import LaneAnswers
from streaming.pipeline.observe.batch_warnings import BrokerWarnings, FaultWarnings
from streaming.pipeline.redrive_verdicts import RedriveVerdicts
from streaming.pipeline.reports import BatchDone, ShardStats, read_reports
from streaming.pipeline.task import set_batch_time
from streaming.pipeline.topics.accepted_loss import AcceptedLoss
from streaming.pipeline.topics.offset_gaps import GapWatch
from streaming.pipeline.traffic import TrafficTotals

MESSAGES: Final = LEDGER[0]


@dataclass(frozen=True, kw_only=True)
class MicroBatch:
    """The parts of a job that take part in a batch.

    Attributes:
        on_batch: called after each committed batch, on Spark's thread.
    """

    checkpoint: Checkpoint
    ledger: Ledger
    clock: JobClock
    trigger: Trigger
    watch: GapWatch
    loss: AcceptedLoss
    stats: ShardStats
    traffic: TrafficTotals
    flow: FlowControl
    ticks: Ticks
    lane_answers: LaneAnswers
    verdicts: RedriveVerdicts
    housekeeping: Housekeeping
    warnings: BrokerWarnings
    faults: FaultWarnings
    on_batch: Callable[[BatchDone], None]

    def run(self, frame: DataFrame, batch_id: int) -> None:
        """Run the stages of a batch, commit their files, and prepare the next batch."""
        started_s = time.perf_counter()
        before = self.ledger.writers[MESSAGES].version
        self.trigger.batch_began()
        self.flow.batch_began()
        self.housekeeping.batch_began()
        self.checkpoint.lock.check()
        query_id = self.checkpoint.logs.query_id()
        assert query_id is not None, "a batch without a query"
        offsets = self.checkpoint.logs.offsets(batch_id)
        self.checkpoint.logs.flush(batch_id)
        now_ms = self.clock.of_batch(batch_id, offsets.now_ms)
        set_batch_time(frame.sparkSession, now_ms)
        reports = read_reports(frame.collect())
        self.lane_answers.send(reports.shards)
        self.verdicts.batch_done(reports.shards)
        stages_s = time.perf_counter() - started_s
        self.watch.check_mapped_topics()
        files = [*reports.files, *self.loss.files(self.ledger, query_id, batch_id)]
        self.stats.update(reports.shards)
        publishes = sum(each.publishes for each in reports.shards)
        records = sum(each.records for each in reports.shards)
        gate = self.flow.batch_done(publishes, stages_s, reports.commands(), records=records)
        self.traffic.add(
            batch_id,
            ((shard.vhost, shard.lane, shard.traffic) for shard in reports.shards),
            reports.fault_totals(),
            gate_open=gate.open,
        )
        counted = totals(files)
        detail = BatchDetail(
            offsets=offsets.ends,
            configuration=self.checkpoint.manifest.outcome_hash,
            core_version=CORE_VERSION,
            manifest=self.checkpoint.manifest.known(),
            resident=self.stats.resident,
            next_deadline_ms=self.stats.due_ms(),
            mean_bytes=round(self.stats.mean_bytes, 1),
            clocks=self.stats.clocks,
            redrives=self.verdicts.noted(),
            compared=self.stats.compared,
            traffic=self.traffic.sums(),
            gate=self.flow.state,
            lowest_resident=self.housekeeping.lowest_detail(),
            cut_records=reports.truncated(),
            **reports.fault_totals(),
            rows=counted.rows,
            last_seq=counted.last_seq,
        )
        self.checkpoint.lock.check()
        revived = reports.revived()
        row = BatchRow(query_id, batch_id, now_ms, detail)
        committed = self.ledger.commit(
            files, row, needs_messages=bool(revived), needs_row=self.verdicts.is_changed
        )
        if revived:  # a batch that runs again does not know which version was before it
            is_new = "committed" in committed.outcomes.values()
            put_back(self.ledger.root, revived, reports.least_version(before) if is_new else None)
        self.loss.committed()
        self.checkpoint.written.add(batch_id, committed.tables)
        self.warnings.log(reports.shards)
        self.faults.log(reports.faults())
        self.flow.batch_committed(batch_id, offsets.ends)
        self.flow.apply()
        self.ticks.batch_done(reports.shards)
        if self.flow.commands_wait:
            self.ticks.wake()  # the backlog may have ended with this batch
        nets = reports.nets()
        if nets is not None:
            has_rows = bool(committed.tables)
            self.housekeeping.nets.add(query_id, batch_id, nets if has_rows else None)
        self.housekeeping.batch_done(
            is_full=self.flow.state.cause == "above",
            events=sum(shard.events for shard in reports.shards),
            has_backlog=self.flow.has_backlog,
            is_busy=bool(self.flow.interval_s),
        )
        seconds = {"stages": stages_s, "commit": sum(committed.seconds.values())}
        seconds["batch"] = time.perf_counter() - started_s
        rounded = {part: round(each, 4) for part, each in seconds.items()}
        self.on_batch(reports.done(batch_id, now_ms, rounded, offsets.ends, self.traffic))
        flow = self.flow
        self.trigger.wait(flow.interval_s, flow.longest_s, flow.may_wait)
