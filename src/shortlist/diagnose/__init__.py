"""Which stage loses what, and what changing it would bring."""

from shortlist.callable_room import make_callable
from shortlist.diagnose.bundle import diagnose
from shortlist.diagnose.diagnosis import Diagnosis
from shortlist.diagnose.log.funnel import LogFunnel, diagnose_log
from shortlist.diagnose.pipeline import diagnose_pipeline

__all__ = ["Diagnosis", "LogFunnel", "diagnose", "diagnose_log", "diagnose_pipeline"]

make_callable(__name__, diagnose)
