"""Who may change something through the page, and until when."""

from meshsec.core.page.logins import MOST, SESSION_SECONDS, TOKEN_SECONDS, Logins


def test_a_token_is_good_once() -> None:
    logins = Logins()
    logins.offer("token", 0.0)
    assert logins.begin("token", "first", 1.0)
    assert not logins.begin("token", "second", 2.0)
    assert logins.holds("first", 3.0)
    assert not logins.holds("second", 3.0)


def test_a_token_is_good_until_its_time_has_passed() -> None:
    for now, good in ((TOKEN_SECONDS - 1, True), (TOKEN_SECONDS, False)):
        logins = Logins()
        logins.offer("token", 0.0)
        assert logins.begin("token", "session", now) is good
        assert logins.holds("session", now) is good


def test_a_session_ends_an_hour_after_the_last_change() -> None:
    logins = Logins()
    logins.offer("token", 0.0)
    assert logins.begin("token", "session", 0.0)
    assert logins.holds("session", SESSION_SECONDS - 1)
    assert logins.holds("session", 2 * SESSION_SECONDS - 2)
    assert not logins.holds("session", 3 * SESSION_SECONDS - 2)


def test_what_nobody_was_given_is_refused() -> None:
    logins = Logins()
    assert not logins.begin("", "session", 0.0)
    assert not logins.holds("session", 0.0)
    assert not logins.holds("\udcff", 0.0)


def test_a_session_is_ended_alone_or_with_all() -> None:
    logins = Logins()
    for name in ("first", "second"):
        logins.offer(f"token of {name}", 0.0)
        assert logins.begin(f"token of {name}", name, 0.0)
    logins.end("first")
    assert not logins.holds("first", 1.0)
    assert logins.holds("second", 1.0)
    logins.offer("unused", 1.0)
    assert logins.end_all() == 1
    assert not logins.holds("second", 2.0)
    assert not logins.begin("unused", "third", 2.0)


def test_the_oldest_of_too_many_goes_first() -> None:
    logins = Logins()
    for number in range(MOST + 1):
        logins.offer(str(number), float(number))
    assert not logins.begin("0", "session", 20.0)
    assert logins.begin("1", "session", 20.0)


def test_what_is_kept_does_not_contain_the_secrets() -> None:
    logins = Logins()
    logins.offer("a secret token", 0.0)
    assert "a secret token" not in repr(logins)


def test_who_signs_goes_from_the_token_to_its_session_alone() -> None:
    logins = Logins()
    logins.offer("token", 0.0, "signer")
    logins.offer("plain token", 0.0)
    assert logins.knows_signer("signer", TOKEN_SECONDS - 1)
    assert not logins.knows_signer("signer", TOKEN_SECONDS)
    assert logins.begin("token", "session", 0.0)
    assert logins.begin("plain token", "plain", 0.0)
    assert (logins.signer_of("session"), logins.signer_of("plain"), logins.signer_of("x")) == ("signer", "", "")
    assert logins.holds("session", 1.0)
    assert logins.signer_of("session") == "signer", "a session that is prolonged keeps it"
    assert logins.knows_signer("signer", SESSION_SECONDS)
    logins.end("session")
    assert not logins.knows_signer("signer", 2.0)
