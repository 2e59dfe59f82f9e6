"""Prometheus metrics; no label holds a user or item id, so the number of series is fixed."""

import os
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from shortlist.feedback.write.writer import LogCounts
from shortlist.pipeline import Trace
from shortlist.state import UserStates

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # read by prometheus_client when it is imported
LOG_OUTCOMES = ("written", "dropped", "failed", "skipped")
SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """The metrics of one app, in their own registry."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "shortlist_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "shortlist_request_seconds",
            "Time to the response.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.stage_seconds = Histogram(
            "shortlist_stage_seconds", "Time in a stage.", ["stage"], buckets=SECONDS, registry=registry
        )
        self.entered = Counter(
            "shortlist_stage_entered", "Candidates that entered a stage.", ["stage"], registry=registry
        )
        self.kept = Counter(
            "shortlist_stage_kept", "Candidates that a stage kept.", ["stage"], registry=registry
        )
        self.degraded = Counter(
            "shortlist_degraded",
            "Responses without a stage that failed or was late.",
            ["stage"],
            registry=registry,
        )
        self.nonfinite = Counter(
            "shortlist_nonfinite_scores", "Scores that were not finite.", ["stage"], registry=registry
        )
        self.unknown_users = Counter(
            "shortlist_unknown_users", "Requests with an unknown user.", registry=registry
        )
        self.unknown_items = Counter(
            "shortlist_unknown_items", "Unknown items in histories.", registry=registry
        )
        self.in_flight = self._gauge("shortlist_in_flight", "Requests that are running or waiting.")

        self.log_requests = Counter(
            "shortlist_log_requests",
            "Requests of the full-stage log by what became of them.",
            ["outcome"],
            registry=registry,
        )
        self.events = Counter(
            "shortlist_events", "Events of clients by what became of them.", ["outcome"], registry=registry
        )
        self.live_events = Counter(
            "shortlist_live_events",
            "Events of live users by what became of them.",
            ["outcome"],
            registry=registry,
        )
        self.live_users = self._gauge("shortlist_live_users", "Users with live events.")
        self.live_dirty = self._gauge("shortlist_live_dirty_users", "Users whose events came out of order.")
        self.live_bytes = self._gauge("shortlist_live_bytes", "Bytes of live events and states.")
        self.live_staleness = self._gauge(
            "shortlist_live_staleness_seconds", "Time since the last event of a user.", "quantile"
        )
        self.live_steps = self._gauge(
            "shortlist_live_steps", "Events of a user since the start vector.", "quantile"
        )
        self.live_norm = self._gauge("shortlist_live_step_norm", "Mean length of a step of a state.", "group")
        self.live_loss = self._gauge(
            "shortlist_live_next_event_loss", "Mean -log probability of a recent event.", "group"
        )
        self.live_share = self._gauge(
            "shortlist_live_share",
            "Share of late and of disordered events, and of mismatched queries.",
            "kind",
        )
        self._logged = dict.fromkeys(LOG_OUTCOMES, 0)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode="sum")

    def answered(self, route: str, status: int, ms: float) -> None:
        """Count a request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(ms / 1e3)

    def ran(self, trace: Trace) -> None:
        """Count the candidates, times and notes of the stages."""
        for step in trace.steps:
            self.stage_seconds.labels(step.name).observe(step.ms / 1e3)
            self.entered.labels(step.name).inc(int(step.entered.sum()))
            self.kept.labels(step.name).inc(int(step.kept.sum()))
            for note in step.notes:
                if note.what == "degraded":
                    self.degraded.labels(note.stage).inc()
                if note.what == "nonfinite" and note.count is not None:
                    self.nonfinite.labels(note.stage).inc(int(note.count.sum()))

    def logged(self, counts: LogCounts) -> None:
        """Count the requests of the log since the last call."""
        for outcome in LOG_OUTCOMES:
            now = getattr(counts, outcome)
            if now > self._logged[outcome]:
                self.log_requests.labels(outcome).inc(now - self._logged[outcome])
                self._logged[outcome] = now

    def applied(self, counts: Mapping[str, int]) -> None:
        """Count events of live users by what became of them."""
        for outcome, count in counts.items():
            self.live_events.labels(outcome).inc(count)

    def live(self, states: UserStates, now_ms: int) -> None:
        """Set what the states report of themselves; NaN where there is nothing to measure."""
        report = states.report(now_ms)
        self.live_users.set(report.users)
        self.live_dirty.set(report.dirty)
        self.live_bytes.set(states.memory().total)
        for quantile, value in report.staleness_ms.items():
            self.live_staleness.labels(quantile).set(value / 1e3)
        for quantile, value in report.steps_since_base.items():
            self.live_steps.labels(quantile).set(value)
        for group, value in report.step_norm.items():
            self.live_norm.labels(group).set(value)
        for group, value in report.next_event_loss.items():
            self.live_loss.labels(group).set(value)
        self.live_share.labels("late").set(report.late_share)
        self.live_share.labels("disordered").set(report.disordered_share)
        self.live_share.labels("mismatched").set(report.mismatched_share)

    def text(self) -> bytes:
        """All metrics in the Prometheus text format, of all processes of the service."""
        if SHARED_FOLDER not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
