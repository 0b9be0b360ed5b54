"""Each rule of the channels, taken out; and the test that must notice."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

TELLING = "tests/channels/test_telling.py::"
HTTP = "tests/outbox/test_http.py::"

CHANNEL_MUTANTS = [
    Mutant(
        name="error-before-the-request-is-a-doubt",
        rule="Where no byte left, nothing was sent.",
        file="channels/http.py",
        old="            if not wire.wrote:\n",
        new="            if False:\n",
        killer=HTTP + "test_refused_connection_is_surely_not_sent",
    ),
    Mutant(
        name="error-after-the-request-is-none",
        rule="Where a byte left, nobody knows.",
        file="channels/http.py",
        old="            if not wire.wrote:\n",
        new="            if True:\n",
        killer=HTTP + "test_ending_after_the_body_left_is_ambiguous",
    ),
    Mutant(
        name="private-addresses-are-reached",
        rule="A URL that is data does not reach inside.",
        file="channels/wire.py",
        old="        if self._allow_private:\n",
        new="        if True:\n",
        killer=HTTP + "test_private_address_is_refused_where_the_url_is_data",
    ),
    Mutant(
        name="each-step-has-the-whole-time",
        rule="The whole request has one time limit.",
        file="channels/wire.py",
        old="        left = self._until_s - time.monotonic()\n",
        new="        left = 5.0\n",
        killer=HTTP + "test_response_that_drips_ends_with_the_time_of_the_whole_request",
    ),
    Mutant(
        name="secret-that-no-header-may-have-is-tried",
        rule="A secret that a library would quote is never handed to it.",
        file="channels/http.py",
        old="            if isinstance(given, Secret) and not is_sendable(value):\n",
        new="            if False:\n",
        killer=HTTP + "test_secret_that_no_header_may_have_is_not_shown_and_sends_nothing",
    ),
    Mutant(
        name="secret-of-an-earlier-send-is-forgotten",
        rule="What quotes a secret that an earlier send told is not kept either.",
        file="_sync/telling.py",
        old="            return [*mine, *to.told]\n",
        new="            return mine\n",
        killer=TELLING + "test_own_channel_that_fails_with_a_secret_in_its_error_is_not_quoted",
    ),
    Mutant(
        name="class-of-an-answer-quotes-a-secret",
        rule="Nothing that is kept of a send quotes a secret, its class included.",
        file="_sync/telling.py",
        old='        kind="not_kept" if quotes(answer.kind, secrets) else answer.kind,\n',
        new="",
        killer=TELLING + "test_class_of_an_answer_and_a_receivers_own_id_quote_no_secret_either",
    ),
    Mutant(
        name="password-of-a-url-is-quoted",
        rule="A password in a broker's URL is a secret.",
        file="_sync/telling.py",
        old="        told(unquote(secret))\n",
        new="        pass\n",
        killer=TELLING + "test_password_that_a_server_quotes_is_kept_nowhere[redis-url-0]",
    ),
    Mutant(
        name="header-of-another-case-goes-out-beside",
        rule="A header goes out once, whatever the case of its name.",
        file="channels/http_request.py",
        old="            found[name.lower()] = (name, value)\n",
        new="            found[name] = (name, value)\n",
        killer=HTTP + "test_header_goes_out_once_and_the_destinations_replaces_the_messages",
    ),
    Mutant(
        name="user-of-a-url-is-dropped-in-silence",
        rule="A password in a URL, which no request would carry, is refused.",
        file="channels/http_request.py",
        old='    if "@" in parts.netloc:\n',
        new="    if False:\n",
        killer=HTTP + "test_url_that_no_request_can_go_to_is_refused_when_it_is_made",
    ),
    Mutant(
        name="private-address-within-another",
        rule="An address that leads to a private one is private.",
        file="channels/wire.py",
        old="        if address in network:\n",
        new="        if False:\n",
        killer=HTTP + "test_address_is_public_by_what_a_packet_to_it_reaches",
    ),
    Mutant(
        name="address-that-nobody-gave-out-is-public",
        rule="Only what is given out of the public internet is public.",
        file="channels/wire.py",
        old="and found not in _UNICAST:\n",
        new="and False:\n",
        killer=HTTP + "test_address_is_public_by_what_a_packet_to_it_reaches",
    ),
    Mutant(
        name="coroutine-that-nobody-awaits-is-sent",
        rule="A function of which not a step ran has sent nothing.",
        file="channels/call.py",
        old="        if inspect.iscoroutine(returned):\n",
        new="        if False:\n",
        killer=HTTP + "test_coroutine_that_nobody_awaits_was_surely_not_sent",
    ),
]
