"""Token bucket, backoff and timers."""

from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.policy.limits import Backoff, TokenBucket
from meshsec.core.policy.policy import Policy
from meshsec.core.values.timers import Timers


def test_bucket_gives_its_burst_and_then_the_rate() -> None:
    bucket, given_out = TokenBucket.full(rate=2.0, burst=3, now=10.0), 0
    for _ in range(5):
        taken = bucket.take(10.0)
        bucket, given_out = taken or bucket, given_out + (taken is not None)
    assert given_out == 3
    assert bucket.take(10.4) is None
    assert bucket.ready_at(10.0) == 10.5
    assert bucket.take(10.5) is not None


def test_bucket_keeps_no_more_than_its_burst() -> None:
    bucket = TokenBucket.full(rate=100.0, burst=1, now=0.0).take(1000.0)
    assert bucket is not None
    assert bucket.take(1000.0) is None


@given(
    rate=st.floats(0.1, 1000),
    burst=st.integers(1, 1000),
    pauses=st.lists(st.floats(0, 5), min_size=1, max_size=30),
)
def test_bucket_has_a_token_at_the_time_it_names_and_never_exceeds_the_rate(
    rate: float, burst: int, pauses: list[float]
) -> None:
    bucket, now, taken = TokenBucket.full(rate, burst, 0.0), 0.0, 0
    for pause in pauses:
        now = bucket.ready_at(now + pause)
        left = bucket.take(now)
        assert left is not None
        bucket, taken = left, taken + 1
    assert taken <= burst + rate * now + 1e-6


def test_backoff_grows_by_the_factor_up_to_the_maximum() -> None:
    policy = Policy(backoff_first=1.0, backoff_factor=3.0, backoff_max=20.0, backoff_jitter=0.5)
    backoff, delays = Backoff(), []
    for _ in range(5):
        backoff = backoff.failed(100.0, policy, random=0.0)
        delays.append(backoff.delay)
        assert backoff.due == 100.0 + backoff.delay
    assert delays == [1.0, 3.0, 9.0, 20.0, 20.0]
    assert backoff.failures == 5
    assert backoff.failed(0.0, policy, random=1.0).delay == 30.0


def test_backoff_survives_any_number_of_failures() -> None:
    assert Backoff(failures=10**6).failed(0.0, Policy(backoff_factor=10.0), 0.0).delay == Policy().backoff_max


def test_a_forger_costs_a_short_pause_that_does_not_grow_and_forgives_nothing_else() -> None:
    policy = Policy(backoff_jitter=0.0)
    failed = Backoff().failed(0.0, policy, 0.5).failed(1.0, policy, 0.5)
    contested = failed
    for now in range(10, 20):
        contested = contested.contested(float(now))
        assert 0 < contested.due - now <= 0.5
        assert contested.delay == 0
    assert contested.failures == failed.failures
    assert contested.failed(30.0, policy, 0.5).delay == 4.0


def test_timers_give_the_earliest_first_and_once() -> None:
    timers: Timers[str] = Timers()
    timers.set("late", 3.0)
    timers.set("early", 1.0)
    timers.set("cleared", 0.5)
    timers.set("cleared", None)
    assert timers.next() == 1.0
    assert timers.pop_due(0.9) is None
    assert timers.pop_due(5.0) == "early"
    assert timers.pop_due(5.0) == "late"
    assert timers.pop_due(5.0) is None
    assert timers.next() is None


def test_timer_that_is_set_again_fires_at_the_new_time_alone() -> None:
    timers: Timers[str] = Timers()
    for when in (1.0, 4.0, 2.0, 4.0):
        timers.set("it", when)
    assert timers.pop_due(3.9) is None
    assert timers.pop_due(4.0) == "it"
    assert timers.next() is None


def test_memory_of_timers_does_not_grow_when_one_is_set_over_and_over() -> None:
    timers: Timers[str] = Timers()
    timers.set("other", 5e6)
    for when in range(10_000):
        timers.set("it", 1e6 + when)
    assert len(timers._heap) < 200
    assert timers.next() == 1e6 + 9_999
