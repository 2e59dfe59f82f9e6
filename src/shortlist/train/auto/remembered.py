"""The plan of a training that was stopped: the same command continues with it, as new estimates would differ."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from shortlist import __version__
from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import write_whole
from shortlist.errors import ArtifactError
from shortlist.pipeline import parse_recipe, to_toml
from shortlist.train.auto.log_profile import LogProfile
from shortlist.train.auto.plan import Plan


def remembered(folder: Path | None, key: object, make: Callable[[], Plan]) -> Plan:
    """The plan in the checkpoint folder under this key, or the one that `make` makes, which is written there."""
    if folder is None:
        return make()
    name = hashlib.sha256(json.dumps([key, __version__], sort_keys=True, default=str).encode()).hexdigest()
    path = folder / f"plan-{name[:12]}.json"
    if path.is_file():
        return _read(path)
    made = make()
    write_whole(path, json.dumps(as_json({**vars(made), "recipe": to_toml(made.recipe)})))
    return made


def _read(path: Path) -> Plan:
    try:
        stored = json.loads(path.read_text("utf-8"))
        facts = stored.pop("profile")
        profile = LogProfile(**{**facts, "columns": tuple(facts["columns"])})
        return Plan(parse_recipe(stored.pop("recipe"), "auto"), profile, **stored)
    except (ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"{path}: is not a plan ({error!r}); remove it, and it is made again") from error
