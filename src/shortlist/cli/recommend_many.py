"""shortlist recommend --all or --users: the slates of many users in a file."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from shortlist.artifact.as_json import as_json
from shortlist.cli.frame import emit, progress
from shortlist.cli.output import echo
from shortlist.errors import ConfigError
from shortlist.pipeline import load_recommender
from shortlist.pipeline.batch import Written, read_user_ids
from shortlist.pipeline.batch.formats import FORMATS
from shortlist.pipeline.batch.users import UnknownUsers
from shortlist.pipeline.batch.write import check_output


def check_batch_options(
    all_users: bool, users: Path | None, out: Path | None, for_one_user: Sequence[str]
) -> None:
    """Refuse options that do not go together, before anything is loaded."""
    if all_users and users is not None:
        raise ConfigError("recommend: --all and --users exclude each other; leave one out")
    if not all_users and users is None:
        raise ConfigError("recommend: --out needs --all, or --users FILE")
    if for_one_user:
        raise ConfigError(
            f"recommend: {', '.join(for_one_user)} is for one user; leave out --all and --users"
        )
    if out is None:
        raise ConfigError(
            f"recommend: many users need --out FILE, which ends in {', '.join(FORMATS)}; "
            "for one user type --user ID"
        )


def recommend_to_many(
    bundle: Path,
    users: Path | None,
    users_column: str | None,
    out: Path,
    k: int | None,
    seed: int,
    unknown: str,
    force: bool,
    json: bool,
) -> None:
    """Write the slates to a file and print what was written."""
    began = time.perf_counter()
    check_output(out, force)
    ids = None if users is None else read_user_ids(users, users_column)
    recommender = load_recommender(bundle)
    with progress() as show:
        written = recommender.write_recommendations(
            out, ids, k, seed=seed, unknown=cast(UnknownUsers, unknown), force=force, progress=show
        )
    seconds = time.perf_counter() - began
    if json:
        emit({**as_json(written), "seconds": seconds})
        return
    for line in _notes(written, unknown):
        echo(line, err=True)
    echo(f"{written.users:,} users, {written.rows:,} rows written to {out} in {seconds:.1f} s")


def _notes(written: Written, unknown: str) -> list[str]:
    """What the reader of the file should know."""
    done = "answered as users without a history" if unknown == "answer" else "left out"
    notes = {
        f"users who are not in the bundle and were {done}: {written.unknown:,}": written.unknown,
        f"ids given more than once, answered once: {written.repeated:,}": written.repeated,
        f"users with an empty slate: {written.empty:,}": written.empty,
        f"users answered by an earlier run that was stopped: {written.resumed:,}": written.resumed,
    }
    skipped = {
        f"users for whom {stage} failed and was skipped: {n:,}": n for stage, n in written.degraded.items()
    }
    return [text for text, count in (notes | skipped).items() if count]
