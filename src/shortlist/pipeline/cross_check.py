"""Whether the files of a bundle fit each other: digests show damage, but not files of another bundle or edited ones."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from shortlist.artifact.tensor_checks import check_shape, check_starts, check_whole
from shortlist.data import Vocabulary
from shortlist.errors import ArtifactError
from shortlist.grammar import Pipeline, leaves
from shortlist.state.histories import UserHistories

AGAIN = "the bundle was changed after training; train again with: shortlist train"


def check_pipeline(pipeline: Pipeline, n_items: int, files: Path) -> None:
    """Refuse a stage whose tensors or settings do not fit the catalogue; `files` is the folder of its files."""
    nominators = [part.title for part in pipeline.nominators]
    for stage in leaves(pipeline):
        try:
            stage.check_catalogue(n_items, nominators)
        except ArtifactError as error:
            file = files / "weights" / f"stage-{stage.title}.safetensors"
            raise ArtifactError(f"{file}: stage {stage.title!r}: {error}; {AGAIN}") from error


def checked_histories(tensors: Mapping[str, Tensor], n_users: int, n_items: int, file: Path) -> UserHistories:
    """The histories in these tensors; refuses those of other users and items outside the catalogue."""
    try:
        histories = UserHistories(**tensors)
        _check_histories(histories, n_users, n_items)
    except (ArtifactError, TypeError) as error:
        raise ArtifactError(f"{file}: {error}; {AGAIN}") from error
    return histories


def checked_slates(tensors: Mapping[str, Tensor], n_items: int, file: Path) -> dict[str, Tensor]:
    """Slates [C, k] as int64; refuses other shapes and items outside the catalogue; -1 is an empty place."""
    slates = {name: _whole(one) for name, one in tensors.items()}
    try:
        for name, one in slates.items():
            check_shape(name, one, None, None)
            check_whole(name, one, -1, n_items)
    except ArtifactError as error:
        raise ArtifactError(f"{file}: {error}; {AGAIN}") from error
    return slates


def _check_histories(histories: UserHistories, n_users: int, n_items: int) -> None:
    check_shape("items", histories.items, None)
    check_starts("starts", histories.starts, n_users, len(histories.items))
    check_whole("items", _whole(histories.items), 0, n_items)
    if histories.trained is None:
        return
    check_shape("trained", histories.trained, n_users)
    check_whole("trained", _whole(histories.trained), 0, len(histories.items) + 1)
    if bool((histories.trained > histories.starts.diff()).any()):
        raise ArtifactError("tensor 'trained': expected at most the length of the history")


def _whole(tensor: Tensor) -> Tensor:
    return tensor.to(torch.int64) if tensor.dtype == torch.int32 else tensor


def checked_vocabulary(table: pa.Table, file: Path) -> Vocabulary:
    """The vocabulary in the column `id`, in which every id occurs once."""
    if "id" not in table.column_names:
        raise ArtifactError(f"{file}: expected a column id, got {', '.join(table.column_names)}; {AGAIN}")
    ids = table["id"].combine_chunks()
    if not (
        pa.types.is_integer(ids.type) or pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)
    ):
        raise ArtifactError(f"{file}: expected ids that are integers or text, got {ids.type}; {AGAIN}")
    if ids.null_count:
        raise ArtifactError(f"{file}: {ids.null_count} ids are missing; {AGAIN}")
    if (distinct := pc.count_distinct(ids).as_py()) != len(ids):
        raise ArtifactError(f"{file}: {len(ids) - distinct} ids are repeated; {AGAIN}")
    return Vocabulary(ids)
