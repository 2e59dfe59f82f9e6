import pytest

from shortlist.data.sources.lastfm import FILE, read_lastfm
from shortlist.errors import ConfigError, DataError

LOG = (
    'user_000001\t2009-05-04T23:08:57Z\tf1b1\tDeep "Dish\t\tSo Far\n'
    "user_000001\t2009-05-04T13:54:10Z\t\tUnderworld\tt2\tBoy, Boy\n"
)


def test_artists_or_tracks_are_items_and_a_name_replaces_a_missing_id(put, events_of):
    folder = put(FILE, LOG).parent
    assert events_of(read_lastfm(folder)) == [
        ("user_000001", "f1b1", 1241478537000, None),
        ("user_000001", "Underworld", 1241445250000, None),
    ]
    tracks = read_lastfm(folder, item="track")
    assert tracks.items.to_pylist() == ["So Far", "t2"]
    assert tracks.item_table["title"].to_pylist() == ["So Far", "Boy, Boy"]


def test_errors_name_the_line_or_the_option(put):
    with pytest.raises(DataError, match=r"log.tsv:3: expected a time"):
        read_lastfm(put("log.tsv", LOG + "u\tyesterday\ta\tb\tc\td\n"))
    with pytest.raises(ConfigError, match=r"item: expected artist or track"):
        read_lastfm("anywhere", item="album")
