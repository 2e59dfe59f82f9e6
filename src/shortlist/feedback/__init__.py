"""The full-stage log: what every stage did with every request, and what came back.

A request thread offers the trace of a run; a background thread samples and writes it. Feedback arrives later and
becomes labels when its window has closed.
"""

from shortlist.feedback.events.append import AppendedEvents, append_events
from shortlist.feedback.inspection import LogSummary, inspect_log
from shortlist.feedback.join import JoinReport, join_feedback, labelled
from shortlist.feedback.nominations import NominationLog, read_nominations
from shortlist.feedback.outcomes import LabelRules
from shortlist.feedback.problems import Problems
from shortlist.feedback.reader import LogReader
from shortlist.feedback.recflow.export import Features, to_recflow
from shortlist.feedback.recflow.reader import RecflowReader
from shortlist.feedback.record import Funnel, LoggedRequests, concat, logged_requests
from shortlist.feedback.write.from_trace import RequestMeta, from_trace, request_id
from shortlist.feedback.write.request_log import LogTo, RequestLog
from shortlist.feedback.write.sampling import EVERYTHING, Quota, Sampling, sampled
from shortlist.feedback.write.writer import FullStageLogger, LogCounts, LogSettings

__all__ = [
    "EVERYTHING",
    "AppendedEvents",
    "Features",
    "FullStageLogger",
    "Funnel",
    "JoinReport",
    "LabelRules",
    "LogCounts",
    "LogReader",
    "LogSettings",
    "LogSummary",
    "LogTo",
    "LoggedRequests",
    "NominationLog",
    "Problems",
    "Quota",
    "RecflowReader",
    "RequestLog",
    "RequestMeta",
    "Sampling",
    "append_events",
    "concat",
    "from_trace",
    "inspect_log",
    "join_feedback",
    "labelled",
    "logged_requests",
    "read_nominations",
    "request_id",
    "sampled",
    "to_recflow",
]
