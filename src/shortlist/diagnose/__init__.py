"""Which stage loses what, and what changing it would bring."""

from shortlist.diagnose.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
