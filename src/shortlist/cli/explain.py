"""shortlist explain: which stage dropped an item, and by how much."""

from typing import Annotated

import typer

from shortlist.cli.console.frame import Bundle, Json, Seed, emit, errors_to_exit_codes
from shortlist.cli.console.live_options import EventsFile, NewEvents, with_events
from shortlist.cli.console.output import Console, Table, echo
from shortlist.cli.recommend import History, as_request, request_facts, request_notes
from shortlist.pipeline import Explanation, load_recommender
from shortlist.pipeline.find_item import find_item


@errors_to_exit_codes()
def explain(
    bundle: Bundle,
    item: Annotated[str, typer.Option(help="Id or title of the item to explain.")],
    user: Annotated[str | None, typer.Option(help="User id.")] = None,
    history: History = None,
    events: EventsFile = None,
    event: NewEvents = None,
    k: Annotated[int | None, typer.Option("-k", "--k", help="Number of items.", min=1, max=1000)] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Follow one item through the request of one user, stage by stage."""
    options = {"--user": user, "--history": history}
    live = with_events(load_recommender(bundle), events, event or [], options)
    recommender = live.recommender
    request = as_request(recommender.catalog, user, history, [], k, seed)
    row = find_item(recommender.catalog, item)
    explanation = recommender.explain(request, recommender.catalog.vocabulary.id(row))
    sentence = explanation.sentence(recommender.catalog.title(explanation.item))
    if json:
        facts = {**request_facts(recommender, request), **live.facts}
        emit({**facts, **vars(recommender.item(explanation.item)), "sentence": sentence, **vars(explanation)})
        return
    for note in (*live.notes, *request_notes(recommender, request)):
        echo(note, err=True)
    echo(sentence)
    for one in explanation.nominations:
        echo(f"  nominated by {one.nominator}: rank {one.rank} of {one.of}, score {_number(one.score)}")
    if explanation.outcomes:
        Console().print(outcomes_table(explanation))


def outcomes_table(explanation: Explanation) -> Table:
    """The path of the item, a row per stage."""
    table = Table()
    for name in ("stage", "kind", "verdict", "rank", "of", "score", "needed"):
        table.add_column(name, justify="right" if name in ("rank", "of", "score", "needed") else "left")
    for one in explanation.outcomes:
        numbers = [_number(value) for value in (one.score, one.threshold)]
        table.add_row(one.stage, one.kind, one.verdict, str(one.rank or ""), str(one.of), *numbers)
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
