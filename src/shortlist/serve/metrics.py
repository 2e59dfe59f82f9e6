"""What the service counts; no label holds the id of a user or an item, so the number of series is fixed."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from shortlist.pipeline import Trace

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """The counters of one app, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = every = CollectorRegistry()
        self.requests = Counter(
            "shortlist_requests", "Requests answered.", ["route", "status"], registry=every
        )
        self.seconds = Histogram(
            "shortlist_request_seconds", "Time to an answer.", ["route"], buckets=SECONDS, registry=every
        )
        self.stage_seconds = Histogram(
            "shortlist_stage_seconds", "Time in a stage.", ["stage"], buckets=SECONDS, registry=every
        )
        self.entered = Counter(
            "shortlist_stage_entered", "Candidates that came to a stage.", ["stage"], registry=every
        )
        self.kept = Counter(
            "shortlist_stage_kept", "Candidates a stage passed on.", ["stage"], registry=every
        )
        self.degraded = Counter(
            "shortlist_degraded", "Answers that had to do without a stage.", ["stage"], registry=every
        )
        self.nonfinite = Counter(
            "shortlist_nonfinite_scores", "Scores that were no finite number.", ["stage"], registry=every
        )
        self.unknown_users = Counter(
            "shortlist_unknown_users", "Requests for a user nobody knows.", registry=every
        )
        self.unknown_items = Counter(
            "shortlist_unknown_items", "Items of histories that nobody knows.", registry=every
        )
        self.in_flight = Gauge(
            "shortlist_in_flight", "Requests answered or waiting right now.", registry=every
        )

    def answered(self, route: str, status: int, ms: float) -> None:
        """Count a request."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(ms / 1e3)

    def ran(self, trace: Trace) -> None:
        """Count what the stages did."""
        for step in trace.steps:
            self.stage_seconds.labels(step.name).observe(step.ms / 1e3)
            self.entered.labels(step.name).inc(int(step.entered.sum()))
            self.kept.labels(step.name).inc(int(step.kept.sum()))
            for note in step.notes:
                if note.what == "degraded":
                    self.degraded.labels(note.stage).inc()
                if note.what == "nonfinite" and note.count is not None:
                    self.nonfinite.labels(note.stage).inc(int(note.count.sum()))

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)
