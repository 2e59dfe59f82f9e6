import pytest

from shortlist.data import build_dataset
from shortlist.data.sources.mind import read_mind
from shortlist.errors import DataError

FIRST, SECOND = 1573463158000, 1573470358000  # 11/11/2019 9:05:58 AM and 11:05:58 AM
LOG = (
    "1\tU1\t11/11/2019 11:05:58 AM\tN1 N2 N1\tN3-0 N4-1\n"
    "2\tU1\t11/11/2019 9:05:58 AM\tN1 N2 N1\tN5-1 N6-1 N3-0\n"
    "3\tU2\t11/11/2019 9:05:58 AM\t\tN3-0 N4-1\n"
)
NEWS = 'N1\tsports\tgolf\tA "quoted title\thello\turl\t[]\t[]\nN4\tnews\tworld\tOther\t\turl\t[]\t[]\n'


def test_history_is_read_once_before_the_first_impression_and_clicks_at_their_time(put):
    dataset = build_dataset(read_mind(put("behaviors.tsv", LOG).parent))
    user = dataset.events.of_user(dataset.users.row("U1"))
    assert dataset.items.ids_of(dataset.events.items[user]) == ["N1", "N2", "N1", "N5", "N6", "N4"]
    assert dataset.events.times[user].tolist() == [FIRST - 3, FIRST - 2, FIRST - 1, FIRST, FIRST, SECOND]
    other = dataset.events.of_user(dataset.users.row("U2"))
    assert dataset.items.ids_of(dataset.events.items[other]) == ["N4"]


def test_every_item_is_an_event_or_counted_as_dropped(put):
    raw = read_mind(put("behaviors.tsv", LOG).parent)
    assert raw.read == 6 + 7
    assert raw.dropped == {"not clicked": 3, "repeated history": 3}
    assert len(raw) == raw.read - sum(raw.dropped.values())


def test_news_gives_titles_and_categories(put):
    put("news.tsv", NEWS)
    raw = read_mind(put("behaviors.tsv", LOG).parent)
    assert raw.item_table.to_pylist() == [
        {"item": "N1", "title": 'A "quoted title', "category": "sports", "subcategory": "golf"},
        {"item": "N4", "title": "Other", "category": "news", "subcategory": "world"},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "4\tU3\t11/11/2019 9:05:58 AM\tN1\tN3 N4",
            "expected impressions like 'N1-0 N2-1' as 'shown', got 'N3 N4'",
        ),
        ("4\tU3\t2019-11-11\tN1\tN3-1", "expected a time like %m/%d/%Y %I:%M:%S %p as 'time'"),
        ("4\tU3\t11/11/2019 9:05:58 AM", "expected 5 fields"),
    ],
)
def test_a_bad_line_is_reported_with_its_number(put, line, message):
    with pytest.raises(DataError) as error:
        read_mind(put("behaviors.tsv", LOG + line + "\n").parent)
    assert f"behaviors.tsv:4: {message}" in str(error.value)
