"""Every reader either reads a damaged file or raises an error of one sentence."""

import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.data.read import read
from shortlist.data.sources import READERS
from shortlist.errors import ShortlistError

ML = {
    "ratings.dat": "1::10::5::978300760\n2::20::3::978300761\n",
    "movies.dat": "10::Heat (1995)::Crime|Drama\n",
}
SHOPPING = "1,10,5,pv,1511544070\n2,11,6,buy,1511544071\n"
KUAIREC = "user_id,video_id,timestamp,watch_ratio\n1,10,1593799703.4,0.5\n1,11,,2.0\n"
MIND = "1\tU1\t11/11/2019 11:05:58 AM\tN1 N2\tN3-0 N4-1\n2\tU2\t11/11/2019 9:05:58 AM\t\tN5-1\n"
TMALL = (
    "user_id,item_id,cat_id,seller_id,brand_id,time_stamp,action_type\n1,10,5,7,,829,0\n1,11,6,7,3,1111,2\n"
)

SAMPLES = {
    "amazon": {"a.jsonl": '{"user_id":"A","parent_asin":"B","rating":4.0,"timestamp":1588687728923}\n' * 2},
    "dtr": {"test_instances": "5|-1,-1,3|4,3\n6|7,-1,8|9\n"},
    "jodie": {"w.csv": "user_id,item_id,timestamp,state_label,f\n0,0,0.0,0,-0.1,0.2\n1,0,36.5,1,0.3,0.4\n"},
    "kuairec": {"big_matrix.csv": KUAIREC, "item_categories.csv": 'video_id,feat\n10,"[27, 9]"\n11,[8]\n'},
    "lastfm": {"l.tsv": "u\t2009-05-04T23:08:57Z\ta1\tDish\t\tS\nu\t2009-05-05T00:00:01Z\t\tX\tt2\tY\n"},
    "mind": {"behaviors.tsv": MIND, "news.tsv": "N1\tsports\tgolf\tTitle\thello\turl\t[]\t[]\n"},
    "movielens": ML,
    "sequences": {"s.txt": "1 10 11\n2 10\n3\n"},
    "tabular": {"t.csv": "user,item,time,weight\n1,10,1700000000,1\n2,11,1700000001,2\n"},
    "taobao": {"UserBehavior.csv": SHOPPING},
    "tmall": {"user_log_format1.csv": TMALL},
    "xmc": {"x.txt": "3 4 5\n0,4 0:0.5 3:1\n 1:2.5\n2 \n"},
}


def test_every_format_has_a_sample():
    assert SAMPLES.keys() == READERS.keys()


@pytest.mark.parametrize("format", SAMPLES)
def test_the_samples_can_be_read(format, put):
    paths = [put(name, text) for name, text in SAMPLES[format].items()]
    assert len(read(paths[0], format).events) > 0


@st.composite
def damages(draw):
    format = draw(st.sampled_from(sorted(SAMPLES)))
    files = {name: bytearray(text.encode()) for name, text in SAMPLES[format].items()}
    blob = files[draw(st.sampled_from(sorted(files)))]
    at = draw(st.integers(0, len(blob) - 1))
    if draw(st.booleans()):
        del blob[at:]
    else:
        blob[at : at + draw(st.integers(0, 2))] = draw(st.binary(min_size=1, max_size=3))
    return format, files


def error_message(format, path):
    try:
        read(path, format)
    except ShortlistError as error:
        return str(error)
    return ""


@settings(deadline=None, max_examples=200)
@given(damages())
def test_a_damaged_log_is_read_or_refused(damage):
    format, files = damage
    with tempfile.TemporaryDirectory() as folder:
        for name, blob in files.items():
            Path(folder, name).write_bytes(bytes(blob))
        message = error_message(format, Path(folder, next(iter(files))))
    assert "\n" not in message


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ml.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in ML.items():
                archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
        blob = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(blob) - 1))
        if data.draw(st.booleans()):
            del blob[at:]
        else:
            blob[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(bytes(blob))
        message = error_message("movielens", path)
    assert "\n" not in message
