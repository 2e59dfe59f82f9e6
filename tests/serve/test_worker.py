import asyncio
from threading import Event, current_thread

import pytest
from prometheus_client import CollectorRegistry, Gauge

from shortlist.serve.problems import RefusedError
from shortlist.serve.worker import Worker

PATIENCE = 30  # seconds until a test that hangs is given up


@pytest.fixture
def gauge():
    return Gauge("waiting", "Work that waits.", registry=CollectorRegistry())


def count(gauge):
    return gauge.collect()[0].samples[0].value


class Held:
    """A piece of work that lasts until it is let go."""

    def __init__(self):
        self.begun, self.go = Event(), Event()

    def __call__(self):
        self.begun.set()
        assert self.go.wait(PATIENCE)
        return "done"

    async def under_way(self):
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)


def test_work_is_done_in_its_own_thread_and_its_place_is_free_again(gauge):
    with Worker(1, gauge) as worker:
        names = [asyncio.run(worker.do(lambda: current_thread().name)) for _ in range(3)]
    assert names == ["score_0"] * 3
    assert count(gauge) == 0


def test_what_work_raises_reaches_who_asked_and_frees_the_place(gauge):
    with Worker(1, gauge) as worker:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                asyncio.run(worker.do(lambda: 1 // 0))
    assert count(gauge) == 0


def test_when_every_place_is_taken_the_next_is_refused_and_not_counted(gauge):
    async def ask(worker, held):
        first = asyncio.create_task(worker.do(held))
        await held.under_way()
        with pytest.raises(RefusedError, match=r"^too many requests are waiting; try again$") as caught:
            await worker.do(int)
        assert (caught.value.code, caught.value.headers) == ("overloaded", {"Retry-After": "1"})
        assert count(gauge) == 1
        held.go.set()
        assert await first == "done"

    with Worker(1, gauge) as worker:
        asyncio.run(ask(worker, Held()))


def test_a_client_that_leaves_gives_up_a_place_in_the_queue_but_not_running_work(gauge):
    async def ask(worker, held):
        running = asyncio.create_task(worker.do(held))
        await held.under_way()
        queued = asyncio.create_task(worker.do(int))
        await asyncio.sleep(0)
        assert count(gauge) == 2
        running.cancel()
        queued.cancel()
        await asyncio.gather(running, queued, return_exceptions=True)
        left = count(gauge)
        held.go.set()
        return left

    with Worker(2, gauge) as worker:
        assert asyncio.run(ask(worker, Held())) == 1
    assert count(gauge) == 0


def test_at_the_end_running_work_is_finished_and_what_waits_is_cancelled():
    held = Held()

    class LettingGo:
        """Counts like a gauge; the running work may end once nothing else is left."""

        value = 0

        def inc(self):
            self.value += 1

        def dec(self):
            self.value -= 1
            if self.value == 1:
                held.go.set()

    async def ask(gauge):
        with Worker(3, gauge) as worker:
            running = asyncio.create_task(worker.do(held))
            await held.under_way()
            waiting = [asyncio.create_task(worker.do(int)) for _ in range(2)]
            await asyncio.sleep(0)
        return await asyncio.gather(running, *waiting, return_exceptions=True)

    gauge = LettingGo()
    done, *cancelled = asyncio.run(ask(gauge))
    assert done == "done"
    assert [type(one) for one in cancelled] == [asyncio.CancelledError] * 2
    assert gauge.value == 0


def test_work_that_comes_after_the_end_is_refused_and_holds_no_place():
    gauge = Gauge("g", "g", registry=CollectorRegistry())
    with Worker(1, gauge) as worker:
        pass
    for _ in range(2):
        with pytest.raises(RefusedError, match="shutting down"):
            asyncio.run(worker.do(lambda: 1))
    assert gauge.collect()[0].samples[0].value == 0
