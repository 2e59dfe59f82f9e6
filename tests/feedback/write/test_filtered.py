"""Candidates that a filter removed: counted per stage, sampled apart, and read again."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from shortlist.feedback.inspection import inspect_log
from shortlist.feedback.manifest import read_manifest
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import concat
from shortlist.feedback.write.sampling import Quota, Sampling
from shortlist.grammar import as_pipeline
from tests.feedback.logs import Ordered, funnel, traces, write_log
from tests.worlds import RandomFilter, listed


def test_both_parts_of_a_stratum_come_back_with_their_own_probabilities(tmp_path):
    pool = listed("pool", range(90), limit=90)
    pipeline = as_pipeline(pool >> RandomFilter(name="seen") % 30 >> Ordered(90, name="rank") % 5)
    write_log(tmp_path, traces(pipeline, 6), Sampling({1: Quota(4)}, Quota(3)))
    reader = LogReader(tmp_path, check=True)
    record = concat(list(reader.requests()))
    assert not reader.problems.counts
    assert (record.filtered_strata()[:, 1] > 3).any()
    for row in range(len(record)):
        own = record.take(np.array([row]))
        gone = own.n_filtered[0, 1]
        for flag, size in ((True, gone), (False, own.strata()[0, 1] - gone)):
            mine = (own.stage == 1) & (own.filtered == flag)
            assert (1 / own.incl_prob[mine].astype(np.float64)).sum() == pytest.approx(size, rel=1e-5)
    assert inspect_log(tmp_path).strata[1].filtered == record.n_filtered[:, 1].sum()


def test_log_without_counts_of_filters_is_read(tmp_path):
    write_log(tmp_path, traces(funnel(60, 20, 5), 2))
    (part,) = read_manifest(tmp_path).of("requests")
    path = tmp_path / part.path
    pq.write_table(pq.read_table(path).drop_columns(["n_filtered"]), path)
    record = concat(list(LogReader(tmp_path).requests()))
    assert (record.n_filtered == -1).all()
    assert len(record) == 2
