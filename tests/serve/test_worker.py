"""The scoring thread and its bounded queue."""

import asyncio
from threading import Event, current_thread

import pytest
from prometheus_client import CollectorRegistry, Gauge

from shortlist.serve.problems import RefusedError
from shortlist.serve.worker import Worker

TIMEOUT = 30  # seconds


@pytest.fixture
def gauge():
    return Gauge("waiting", "Waiting jobs.", registry=CollectorRegistry())


def count(gauge):
    return gauge.collect()[0].samples[0].value


class Held:
    """A job that runs until it is released."""

    def __init__(self):
        self.begun, self.go = Event(), Event()

    def __call__(self):
        self.begun.set()
        assert self.go.wait(TIMEOUT)
        return "done"

    async def under_way(self):
        assert await asyncio.to_thread(self.begun.wait, TIMEOUT)


def test_work_runs_in_its_own_thread_and_frees_its_slot(gauge):
    with Worker(1, gauge) as worker:
        names = [asyncio.run(worker.do(lambda: current_thread().name)) for _ in range(3)]
    assert names == ["score_0"] * 3
    assert count(gauge) == 0


def test_exception_reaches_the_caller_and_frees_the_slot(gauge):
    with Worker(1, gauge) as worker:
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                asyncio.run(worker.do(lambda: 1 // 0))
    assert count(gauge) == 0


def test_work_beyond_the_slots_is_refused_and_not_counted(gauge):
    async def submit(worker, held):
        first = asyncio.create_task(worker.do(held))
        await held.under_way()
        with pytest.raises(RefusedError, match=r"^too many requests are waiting; try again$") as caught:
            await worker.do(int)
        assert (caught.value.code, caught.value.headers) == ("overloaded", {"Retry-After": "1"})
        assert count(gauge) == 1
        held.go.set()
        assert await first == "done"

    with Worker(1, gauge) as worker:
        asyncio.run(submit(worker, Held()))


def test_disconnected_client_frees_its_place_in_the_queue_but_not_running_work(gauge):
    async def submit(worker, held):
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
        assert asyncio.run(submit(worker, Held())) == 1
    assert count(gauge) == 0


def test_shutdown_finishes_running_work_and_cancels_waiting_work():
    held = Held()

    class Releasing:
        """A gauge that releases the running job once nothing else is left."""

        value = 0

        def inc(self):
            self.value += 1

        def dec(self):
            self.value -= 1
            if self.value == 1:
                held.go.set()

    async def submit(gauge):
        with Worker(3, gauge) as worker:
            running = asyncio.create_task(worker.do(held))
            await held.under_way()
            waiting = [asyncio.create_task(worker.do(int)) for _ in range(2)]
            await asyncio.sleep(0)
        return await asyncio.gather(running, *waiting, return_exceptions=True)

    gauge = Releasing()
    done, *cancelled = asyncio.run(submit(gauge))
    assert done == "done"
    assert [type(one) for one in cancelled] == [asyncio.CancelledError] * 2
    assert gauge.value == 0


def test_work_after_shutdown_is_refused_and_takes_no_slot():
    gauge = Gauge("g", "g", registry=CollectorRegistry())
    with Worker(1, gauge) as worker:
        pass
    for _ in range(2):
        with pytest.raises(RefusedError, match="shutting down"):
            asyncio.run(worker.do(lambda: 1))
    assert gauge.collect()[0].samples[0].value == 0
