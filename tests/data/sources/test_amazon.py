import pytest

from shortlist.data.sources.amazon import read_amazon
from shortlist.errors import ConfigError, DataError

OLD = '{"reviewerID":"A1B2","asin":"B00AAAAAA1","overall":5.0,"unixReviewTime":1252800000,"reviewText":"x"}\n'
NEW = '{"user_id":"AE2","asin":"B0X","parent_asin":"B00AAAAAA1","rating":4,"timestamp":1588687728923}\n'


@pytest.mark.parametrize("name", ["Books_5.json.gz", "Books.jsonl"])
def test_json_lines_of_both_editions(put, events_of, name):
    assert events_of(read_amazon(put(name, OLD))) == [("A1B2", "B00AAAAAA1", 1252800000000, 5.0)]
    assert events_of(read_amazon(put(name, NEW))) == [("AE2", "B00AAAAAA1", 1588687728923, 4.0)]


@pytest.mark.parametrize(
    "line",
    ["A1B2,B00AAAAAA1,5.0,1252800000\n", "B00AAAAAA1,A1B2,5.0,1252800000\n"],
)
def test_the_order_of_a_ratings_file_is_detected_from_the_asin(put, events_of, line):
    assert events_of(read_amazon(put("ratings.csv", line))) == [("A1B2", "B00AAAAAA1", 1252800000000, 5.0)]


def test_an_order_that_cannot_be_detected_must_be_given(put, events_of):
    path = put("ratings.csv", "u,i,5.0,1252800000\n")
    with pytest.raises(DataError, match=r"ratings.csv:1: expected one ASIN among"):
        read_amazon(path)
    assert events_of(read_amazon(path, order="item,user")) == [("i", "u", 1252800000000, 5.0)]
    with pytest.raises(ConfigError, match=r"order: expected user,item or item,user"):
        read_amazon(path, order="any")


def test_the_2023_ratings_have_a_header(put, events_of):
    path = put("Books.csv.gz", "user_id,parent_asin,rating,timestamp\nAE2,B00AAAAAA1,4.0,1588687728923\n")
    assert events_of(read_amazon(path)) == [("AE2", "B00AAAAAA1", 1588687728923, 4.0)]


def test_a_bad_line_is_reported_with_its_number(put):
    with pytest.raises(DataError, match=r"Books.json:2: expected a number as 'overall', got 'five'"):
        read_amazon(put("Books.json", OLD + OLD.replace("5.0", '"five"')))
