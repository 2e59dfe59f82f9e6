"""The funnel of a full-stage log: what every stage keeps, how stages agree, what is lost; weighted by 1 / incl_prob."""

from shortlist.diagnose.log.funnel import LogFunnel, diagnose_log

__all__ = ["LogFunnel", "diagnose_log"]
