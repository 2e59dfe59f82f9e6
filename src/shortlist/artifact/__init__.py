"""A folder on disk that can be trusted: manifest, sha256, safetensors and Parquet, atomic write."""

from shortlist.artifact.store import Artifact, Lineage, Part, load, save

__all__ = ["Artifact", "Lineage", "Part", "load", "save"]
