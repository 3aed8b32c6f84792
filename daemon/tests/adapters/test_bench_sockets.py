"""What the two commands of a benchmark say to each other, and the probes beside a stream, over loopback."""

import socket
import threading
import time

import pytest

from meshsec.adapters import processors
from meshsec.adapters.sockets import bench_probes, bench_talk
from meshsec.adapters.sockets.bench_talk import LINE, Listener, Talk, TalkError

HERE = "::1"


def free_port() -> int:
    with socket.socket(socket.AF_INET6) as opened:
        opened.bind((HERE, 0))
        return int(opened.getsockname()[1])


def accepted(listener: Listener) -> Talk:
    talk = listener.accept(5.0)
    assert talk is not None
    return talk


def test_each_hears_what_the_other_says() -> None:
    with Listener(HERE, HERE, port := free_port()) as listener, bench_talk.connect(HERE, HERE, port) as asks:
        with accepted(listener) as answers:
            asks.say({"do": "hello"})
            assert answers.hear(5.0) == {"do": "hello"}
            answers.say({"left": 3})
            assert asks.hear(5.0) == {"left": 3}
        with pytest.raises(TalkError, match="closed"):
            asks.hear(5.0)


def test_nobody_else_is_heard() -> None:
    with Listener(HERE, "fc00::1", port := free_port()) as listener, bench_talk.connect(HERE, HERE, port) as stranger:
        assert listener.accept(5.0) is None
        with pytest.raises(TalkError):
            stranger.hear(5.0)


def test_who_waits_in_vain_goes_on() -> None:
    with Listener(HERE, HERE, free_port()) as listener:
        assert listener.accept(0.05) is None
        assert listener.accept(-1) is None


def test_where_nobody_listens_the_reason_is_given() -> None:
    with pytest.raises(TalkError, match="Connection refused"):
        bench_talk.connect(HERE, HERE, free_port())


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (b"x" * (LINE + 1), "too long"),
        (b"{\n", "not JSON"),
        (b"\xff\n", "not JSON"),
        (b"[" * (LINE - 10) + b"\n", "not JSON"),
        (b"[1]\n", "no object"),
        (b"", "within"),
    ],
)
def test_octets_that_are_no_message_are_refused(octets: bytes, said: str) -> None:
    with Listener(HERE, HERE, port := free_port()) as listener, socket.create_connection((HERE, port)) as sender:
        sender.sendall(octets)
        with accepted(listener) as answers, pytest.raises(TalkError, match=said):
            answers.hear(0.3)


def test_a_peer_that_sends_a_byte_now_and_then_has_no_more_time_for_its_line() -> None:
    with Listener(HERE, HERE, port := free_port()) as listener, socket.create_connection((HERE, port)) as sender:
        ended = threading.Event()

        def dribble() -> None:
            while not ended.wait(0.1):
                sender.sendall(b"x")

        thread = threading.Thread(target=dribble)
        thread.start()
        began = time.monotonic()
        try:
            with accepted(listener) as answers, pytest.raises(TalkError, match="no whole line came within"):
                answers.hear(0.5)
            assert 0.4 < time.monotonic() - began < 5
        finally:
            ended.set()
            thread.join()


def test_two_messages_that_come_at_once_are_heard_one_after_the_other() -> None:
    with Listener(HERE, HERE, port := free_port()) as listener, socket.create_connection((HERE, port)) as sender:
        sender.sendall(b'{"do": 1}\n{"do": 2}\n{"do"')
        with accepted(listener) as answers:
            assert [answers.hear(5.0), answers.hear(5.0)] == [{"do": 1}, {"do": 2}]
            sender.sendall(b": 3}\n")
            assert answers.hear(5.0) == {"do": 3}


def test_probes_come_back_and_are_timed() -> None:
    port = free_port()
    with bench_probes.answering(HERE, HERE, port), bench_probes.probing((HERE, 0), (HERE, port)) as trips:
        time.sleep(0.5)
    assert trips.sent >= 5
    assert trips.lost == 0
    assert all(0 < one < 1000 for one in trips.milliseconds.values())


def test_probes_that_nobody_answers_are_lost() -> None:
    with bench_probes.probing((HERE, 0), (HERE, free_port())) as trips:
        time.sleep(0.3)
    assert (trips.milliseconds, trips.lost) == ({}, 100.0)


def test_answers_that_were_not_asked_for_count_for_nothing() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as forger:
        forger.bind((HERE, 0))
        forger.settimeout(5.0)

        def forge() -> None:
            octets, sender = forger.recvfrom(100)
            for other in (b"", octets[:-1], b"\0" * 40, octets[:8] + b"\xff" * 4 + octets[12:]):
                forger.sendto(other, sender)

        thread = threading.Thread(target=forge)
        thread.start()
        with bench_probes.probing((HERE, 0), (HERE, forger.getsockname()[1])) as trips:
            thread.join()
            time.sleep(0.2)
    assert trips.milliseconds == {}


def test_strangers_are_not_answered() -> None:
    with (
        bench_probes.answering(HERE, "fc00::1", port := free_port()),
        bench_probes.probing((HERE, 0), (HERE, port)) as trips,
    ):
        time.sleep(0.3)
    assert trips.lost == 100.0


def test_this_process_is_seen_at_work() -> None:
    before = processors.look()
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass
    after = processors.look()
    assert after.cores.keys() == before.cores.keys() != set()
    mine = [where for where in after.threads if where[1] == threading.get_native_id()]
    assert len(mine) == 1
    assert after.threads[mine[0]].ticks - before.threads[mine[0]].ticks >= 20 * processors.HERTZ // 100
