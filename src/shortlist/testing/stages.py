"""The contract of stages, as a check that can be run on any stage."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.data import Candidates, Query
from shortlist.errors import GrammarError, ShortlistError
from shortlist.grammar import (
    KINDS,
    Filter,
    Hydrator,
    Nominator,
    Scorer,
    Selector,
    Stage,
    as_pipeline,
    kind_of,
)
from shortlist.pipeline.run import run


def check_stage(stage: Stage, n_items: int, nominators: tuple[str, ...] = (), seed: int = 0) -> None:
    """Raise GrammarError unless the stage keeps its contract on difficult requests.

    The requests have no history, unknown users, full and padded histories, alone and in a batch. The stage must give
    the same result every time, leave its input unchanged, and return what its kind owns with the right shape.
    `nominators` are the names whose `.score` and `.rank` columns the stage reads.
    """
    if kind_of(stage) == "stage":
        raise GrammarError(f"{type(stage).__name__} has no kind: derive it from {KINDS}")
    generator = torch.Generator().manual_seed(seed)
    query = _requests(n_items, generator)
    found = _candidates(len(query), n_items, nominators, generator)
    with _handling(stage, "any request"):
        first = _check_answer(stage, query, found, n_items)
        _check_alone(stage, query, found, first)
        _check_padding(stage, query, found, first)
    with _handling(stage, "requests without candidates"):
        _check_empty(stage, query, found)
    _check_run(stage, query, n_items, nominators)


@contextmanager
def _handling(stage: Stage, what: str) -> Iterator[None]:
    """Any exception of a stage breaks its contract and is reported with its message."""
    try:
        yield
    except ShortlistError:
        raise
    except Exception as error:
        raise GrammarError(
            _broken(stage, f"handles {what}; it raised {type(error).__name__}: {error}")
        ) from error


def _requests(n_items: int, generator: torch.Generator) -> Query:
    wide = torch.randint(0, n_items, (4, 12), generator=generator).tolist()
    histories = [[], wide[0][:1], wide[1][:5], wide[2]]
    return Query.of(histories, users=[-1, 0, 1, 2], times=[0, 1, 2, 3], seeds=[11, 12, 13, 14])


def _candidates(
    count: int, n_items: int, nominators: tuple[str, ...], generator: torch.Generator
) -> Candidates:
    width = min(n_items, 20)
    items = torch.stack([torch.randperm(n_items, generator=generator)[:width] for _ in range(count)])
    scores = torch.randn(count, width, generator=generator)
    found = Candidates.of(items.masked_fill(torch.rand(count, width, generator=generator) < 0.2, -1), scores)
    ranks = torch.arange(width).expand(count, width).to(torch.float32)
    columns = {f"{name}.score": scores for name in nominators} | {
        f"{name}.rank": ranks for name in nominators
    }
    return found.add(columns)


def _check_answer(stage: Stage, query: Query, found: Candidates, n_items: int) -> Candidates:
    before = _copies(query, found)
    _check_method(stage, query, found)
    first = stage(query, found)
    _require(stage, "leaves its input unchanged", _same_all(before, _copies(query, found)))
    if isinstance(stage, Nominator):
        _check_nominated(stage, first, len(query), n_items)
    _require(stage, "returns the same result when called twice", _same(first, stage(query, found)))
    return first


def _check_method(stage: Stage, query: Query, found: Candidates) -> None:
    """Check the return value of the method of the stage's kind."""
    if isinstance(stage, Filter):
        keep = stage.keep(query, found)
        _require(
            stage, "returns one boolean per candidate", keep.dtype == torch.bool and keep.shape == found.shape
        )
    if isinstance(stage, Hydrator):
        for name, column in stage.columns(query, found).items():
            _require(stage, f"returns column {name!r} with the shape [B, K]", column.shape == found.shape)
    if isinstance(stage, Scorer):
        scores = stage.score(query, found)
        _require(stage, "returns one score per candidate", scores.shape == found.shape)
        _require(stage, "returns finite scores", bool(torch.isfinite(scores[found.valid]).all()))
    if isinstance(stage, Selector):
        _check_choice(stage, stage.select(query, found)[:, : stage.k], found)


def _check_nominated(stage: Nominator, nominated: Candidates, count: int, n_items: int) -> None:
    rows = nominated.items[nominated.valid]
    shapes = nominated.items.shape == nominated.scores.shape and nominated.shape[0] == count
    _require(stage, "nominates items and scores of the shape [B, K]", shapes)
    _require(stage, "nominates at most its limit", nominated.shape[1] <= stage.limit)
    _require(stage, "nominates rows of the catalogue", bool(((rows >= 0) & (rows < n_items)).all()))
    steps = nominated.scores.masked_fill(~nominated.valid, -torch.inf)
    _require(stage, "nominates the best first", bool((steps[:, 1:] <= steps[:, :-1]).all()))


def _check_choice(stage: Selector, positions: Tensor, found: Candidates) -> None:
    chosen = positions.clamp(min=0)
    _require(stage, "selects positions that exist", bool((positions < found.shape[1]).all()))
    _require(
        stage,
        "selects valid candidates",
        bool((found.valid.gather(1, chosen) | (positions < 0)).all()),
    )
    ordered = torch.where(positions < 0, -1 - torch.arange(positions.shape[1]), positions).sort(1).values
    _require(stage, "selects each candidate once", bool((ordered[:, 1:] != ordered[:, :-1]).all()))


def _check_alone(stage: Stage, query: Query, found: Candidates, whole: Candidates) -> None:
    for row in range(len(query)):
        alone = stage(query.take(slice(row, row + 1)), _row(found, row))
        _require(
            stage,
            "returns the same result for a request alone and in a batch",
            _close(alone, _row(whole, row)),
        )


def _check_padding(stage: Stage, query: Query, found: Candidates, whole: Candidates) -> None:
    pad = torch.full((len(query), 3), -1)
    padded = Query(query.user, torch.cat([pad, query.history], 1), query.time, query.seed, query.context)
    _require(stage, "does not depend on the amount of padding", _close(stage(padded, found), whole))


def _check_empty(stage: Stage, query: Query, found: Candidates) -> None:
    empty = found.take(torch.empty((len(query), 0), dtype=torch.int64))
    result = stage(query, empty)
    invented = kind_of(stage) != "nominator" and bool(result.valid.any())
    _require(stage, "returns no candidate when it gets none", result.shape[0] == len(query) and not invented)


@dataclass(frozen=True, eq=False, repr=False)
class _Given(Nominator):
    """Nominates random candidates."""

    n_items: int = 1

    def nominate(self, query: Query) -> Candidates:
        found = _candidates(len(query), self.n_items, (), torch.Generator().manual_seed(1))
        return found.best(found.shape[1])


def _check_run(stage: Stage, query: Query, n_items: int, nominators: tuple[str, ...]) -> None:
    """Run the stage in a pipeline and check the conservation of candidates."""
    names = nominators or ("given",)
    given = [_Given(n_items, name=name) for name in names]
    pool: Stage = given[0]
    for other in given[1:]:
        pool = pool + other
    pipeline = stage if kind_of(stage) == "nominator" else pool >> stage
    run(as_pipeline(pipeline), query).trace.check()


def _copies(query: Query, found: Candidates) -> list[Tensor]:
    request = [query.user, query.history, query.time, query.seed, *query.context.values()]
    return [
        part.clone() for part in (*request, found.items, found.scores, found.valid, *found.columns.values())
    ]


def _same_all(before: list[Tensor], after: list[Tensor]) -> bool:
    return all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(before, after, strict=True))


def _compared(found: Candidates) -> Iterator[Tensor]:
    yield found.items.masked_fill(~found.valid, -1)
    yield found.scores.masked_fill(~found.valid, 0.0)
    for column in found.columns.values():
        yield column.masked_fill(~found.valid, 0).nan_to_num()


def _same(one: Candidates, other: Candidates) -> bool:
    return all(torch.equal(a, b) for a, b in zip(_compared(one), _compared(other), strict=True))


def _close(one: Candidates, other: Candidates) -> bool:
    pairs = zip(_compared(one), _compared(other), strict=True)
    return all(a.shape == b.shape and torch.allclose(a.float(), b.float(), atol=1e-4) for a, b in pairs)


def _row(found: Candidates, row: int) -> Candidates:
    cut = slice(row, row + 1)
    columns = {name: column[cut] for name, column in found.columns.items()}
    return Candidates(
        found.items[cut], found.scores[cut], found.valid[cut], found.slot[cut], found.origin, columns
    )


def _require(stage: Stage, rule: str, holds: bool) -> None:
    if not holds:
        raise GrammarError(_broken(stage, rule))


def _broken(stage: Stage, rule: str) -> str:
    return f"{stage.title!r} ({type(stage).__name__}) breaks its contract: it must be a stage that {rule}"
