import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from shortlist.errors import CONTROLS
from shortlist.evaluate import evaluate
from shortlist.evaluate.lookup import look_up_users
from shortlist.report.lookup import SCRIPT, lookup_section
from shortlist.report.page import page
from shortlist.report.run import run_page

EVIL = "</script><img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.data, self.inside = [], "", False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = ("id", "lookup-data") in attrs

    def handle_data(self, data):
        self.data += data if self.inside else ""

    def handle_endtag(self, tag):
        self.inside = False


def parsed(text):
    parser = Tags()
    parser.feed(text)
    return parser


@pytest.fixture(scope="module")
def users(recommender, world):
    return look_up_users(recommender, world)


def test_page_holds_every_looked_up_request(users, recommender, world):
    text = run_page(evaluate(recommender, world), users)
    data = json.loads(parsed(text).data)
    own = [dict(zip(data["requests"]["columns"], row, strict=True)) for row in data["requests"]["rows"]]
    assert own == json.loads(json.dumps([vars(one) for one in users.requests]))
    items = [dict(zip(data["items"]["columns"], row, strict=True)) for row in data["items"]["rows"]]
    assert items == json.loads(json.dumps([vars(one) for one in users.items]))
    assert f"all {users.total} requests of test users" in text
    assert '<input id="lookup-user"' in text


def test_part_that_does_not_fit_says_how_many_are_there(users):
    some = replace(users, requests=users.requests[:2])
    text = page("x", [lookup_section(some)], SCRIPT)
    assert f"2 of the {users.total} requests" in text
    assert "The others are left out" in text
    assert "shortlist explain BUNDLE --user ID --item ITEM" in text


def test_markup_in_ids_and_titles_is_inert(users):
    items = tuple(replace(item, title=EVIL, item_id=EVIL) for item in users.items)
    requests = tuple(replace(one, user=EVIL) for one in users.requests)
    evil = replace(users, items=items, requests=requests, stages=(EVIL,) * len(users.stages))
    text = page(EVIL, [lookup_section(evil)], SCRIPT)
    assert "<img" not in text
    found = parsed(text)
    assert found.tags.count("script") == 2  # the data and our own script
    assert EVIL in json.loads(found.data)["items"]["rows"][0]


def test_script_writes_text_only_and_only_its_hash_may_run():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|https?:|fetch", SCRIPT)
    assert "</script" not in SCRIPT
    with_script, without = page("x", [], SCRIPT), page("x", [])
    assert re.search(r"script-src 'sha256-[A-Za-z0-9+/=]{44}';", with_script)
    assert "script-src 'none'" in without


def test_script_shows_the_same_characters_as_escapes_as_the_terminal():
    own = re.search(r"CONTROLS = /(.+)/gu;", SCRIPT)[1]
    points = range(0x2100)  # of the rest only surrogates are controls
    assert [at for at in points if re.match(own, chr(at))] == [at for at in points if CONTROLS.match(chr(at))]
    assert "made.textContent = visible(text)" in SCRIPT
    assert SCRIPT.count("textContent = ") == SCRIPT.count('textContent = ""') + 1
