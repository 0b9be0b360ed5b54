"""Payloads: one canonical form, one fingerprint, and refusals that name the place."""

from __future__ import annotations

import enum
import hashlib
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly._core.payload import (
    DEPTH_MAX,
    INTEGER_MAX,
    PAYLOAD_BYTES_MAX,
    canonical,
    from_text,
    result_json,
)
from duly.errors import PayloadInvalid, ResultInvalid

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-INTEGER_MAX, INTEGER_MAX)
    | st.floats(-INTEGER_MAX, INTEGER_MAX)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(values)
@example(-0.0)
@example(1e-7)
def test_payload_parsed_from_its_canonical_text_is_the_same_payload(value: Any) -> None:
    """What a handler receives has the fingerprint of what was given."""
    payload = canonical(value)

    assert payload.value == value
    assert canonical(payload.value) == payload
    assert from_text(payload.canonical) == payload
    assert payload.fingerprint == hashlib.sha256(payload.canonical).digest()


@given(values)
def test_payload_given_as_text_equals_the_payload_given_as_a_value(value: Any) -> None:
    """The command line and the call agree, in every spelling of the text."""
    assert from_text(json.dumps(value)) == canonical(value)
    assert from_text(json.dumps(value, ensure_ascii=False, indent=2).encode()) == canonical(value)


@given(values, values)
def test_payloads_of_unequal_values_differ(one: Any, other: Any) -> None:
    """Two payloads share a fingerprint only if JSON cannot tell their values apart."""
    same = json.dumps(canonical(one).value, sort_keys=True) == json.dumps(
        canonical(other).value, sort_keys=True
    )

    assert (canonical(one).fingerprint == canonical(other).fingerprint) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"units": 10}, {"units": 10.0}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1, 2], (1, 2)),
        (0.0, -0.0),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        ({Colour.RED: 1}, {"red": 1}),
    ],
)
def test_payloads_that_json_cannot_tell_apart_are_one(one: Any, other: Any) -> None:
    """Spelling, order and Python types of equal JSON do not make a conflict."""
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (None, False), ("1", 1), ("\u00e9", "e\u0301"), ([], {}), (None, [])],
)
def test_payloads_that_json_tells_apart_stay_apart(one: Any, other: Any) -> None:
    """Python's equality of 1 and True, and Unicode forms, do not hide a conflict."""
    assert canonical(one) != canonical(other)


def test_payload_of_none_is_json_null() -> None:
    """No payload is null, in a call and on the command line."""
    assert canonical(None).canonical == b"null"
    assert from_text("null") == canonical(None)
    assert canonical(None).value is None


def test_payload_value_is_fresh_each_time() -> None:
    """A handler that changes its payload does not change what the next attempt sees."""
    payload = canonical({"items": [1]})
    payload.value["items"].append(2)

    assert payload.value == {"items": [1]}


def test_payload_keys_are_sorted_by_utf_16_as_the_rfc_says() -> None:
    """RFC 8785 orders names by UTF-16 code units, not by code points."""
    assert canonical({"\ufb33": 1, "\U0001f600": 2}).canonical.decode() == (
        '{"\U0001f600":2,"\ufb33":1}'
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"items": [0, 0, 0, {"id": 2**53}]}, r"payload\.items\[3\]\.id is 9007199254740992, "),
        ({"id": -(2**53)}, r"payload\.id .* give it as a string"),
        ({"id": 10**6000}, r"payload\.id is an integer of \d+ bits"),
        ({"x": 2.0**53}, r"payload\.x .* integer beyond .* give it as a string"),
        ({"x": 1e300}, r"payload\.x .* give it as a string"),
        ([math.nan], r"payload\[0\] is nan, which JSON does not have; give null or a string"),
        ([-math.inf], r"payload\[0\] is -inf"),
        ({"sum": Decimal("1.10")}, r"payload\.sum is of type Decimal.* give it as a string"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, r"payload\.at is of type datetime.*isoformat"),
        ({"id": UUID(int=1)}, r"payload\.id is of type UUID.* give it as a string"),
        ({"raw": b"x"}, r"payload\.raw is of type bytes.* base64"),
        ({"s": {1}}, r"payload\.s is of type set.* sorted list"),
        (object(), r"payload is of type object"),
        ({"a": {5: 1}}, r"payload\.a has the key 5, which is not text; give keys as strings"),
        ({None: 1}, r"payload has the key None"),
        ({"a": "\ud800"}, r"payload\.a contains half of a surrogate pair"),
        ({"\udfff": 1}, r"surrogate pair"),
        ({"a b": [2**60]}, r"payload\['a b'\]\[0\] is "),
        ("x" * PAYLOAD_BYTES_MAX, r"payload is larger than 65536 bytes"),
        ("ä" * (PAYLOAD_BYTES_MAX // 2), r"payload is larger than 65536 bytes"),
        (nested(DEPTH_MAX + 1), r"is nested more than 100 deep; flatten it"),
    ],
)
def test_payload_that_json_cannot_carry_is_refused_by_place(value: Any, message: str) -> None:
    """A refusal is one line that names the place and the next step."""
    with pytest.raises(PayloadInvalid, match=message) as caught:
        canonical(value)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


def test_payload_that_contains_itself_is_refused() -> None:
    """A cycle is one clear error, not a full stack."""
    value: dict[str, Any] = {"a": [1]}
    value["a"].append(value)

    with pytest.raises(PayloadInvalid, match=r"payload\.a\[1\] contains itself"):
        canonical(value)


def test_payload_that_shares_a_part_is_no_cycle() -> None:
    """The same list twice side by side is ordinary data."""
    part = [1]

    assert canonical({"a": part, "b": part}).value == {"a": [1], "b": [1]}


def test_payload_that_would_unfold_without_end_is_refused_at_once() -> None:
    """Shared lists that double at each level are refused by size, not by memory."""
    value: list[Any] = []
    for _ in range(DEPTH_MAX - 1):
        value = [value, value]

    with pytest.raises(PayloadInvalid, match="larger than 65536 bytes"):
        canonical(value)


@pytest.mark.parametrize(
    "value",
    ["x" * (PAYLOAD_BYTES_MAX - 2), "ä" * (PAYLOAD_BYTES_MAX // 2 - 1), nested(DEPTH_MAX)],
    ids=["ascii", "utf-8", "depth"],
)
def test_payload_at_its_bound_is_accepted(value: Any) -> None:
    """The bounds are inclusive and count bytes of UTF-8."""
    assert canonical(value).value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("1.0", 1),
        ("1e2", 100),
        ("0.10", 0.1),
        ("-0", 0),
        ("5e-324", 5e-324),
        ("9007199254740991", INTEGER_MAX),
        ("9.007199254740991e15", INTEGER_MAX),
        (' {"units" : 10} \n', {"units": 10}),
        ('"\\ud83d\\ude00"', "\U0001f600"),
    ],
)
def test_payload_text_whose_numbers_survive_is_accepted(text: str, value: Any) -> None:
    """A number in any spelling is taken by its decimal value."""
    assert from_text(text) == canonical(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON at line 1, column 1"),
        ("{'a': 1}", "not JSON at line 1, column 2"),
        ('{"a": 1}\n}', "not JSON at line 2, column 1"),
        ("[1,]", "not JSON"),
        ('"a\nb"', "not JSON"),
        ("01", "not JSON"),
        ('{"a": 1, "a": 1}', r"payload\.a is given more than once"),
        ('{"b": [{"a": 1, "\\u0061": 2}]}', r"payload\.b\[0\]\.a is given more than once"),
        ("1e400", "payload is '1e400', beyond 2.53 - 1"),
        ("[-1e400]", r"payload\[0\] is '-1e400'"),
        ("0.10000000000000000001", "does not carry exactly; give it as a string"),
        ("1e-400", "does not carry exactly"),
        ("1e-99999999999999999999", "does not carry exactly"),
        ("1e99999999999999999999", "give it as a string"),
        ("9007199254740992", "beyond 2.53 - 1"),
        ("9007199254740993", "beyond 2.53 - 1"),
        ("-9007199254740992.0", "beyond 2.53 - 1"),
        ("9007199254740.992e3", "beyond 2.53 - 1"),
        ("9007199254740991.5", "give it as a string"),
        ("1e300", "beyond 2.53 - 1"),
        pytest.param("9" * 50_000, "give it as a string", id="long-integer"),
        pytest.param("0." + "1" * 50_000, "give it as a string", id="long-fraction"),
        ("NaN", "payload is NaN, which JSON does not have"),
        ('{"a": Infinity}', r"payload\.a is Infinity"),
        ("-Infinity", "payload is -Infinity"),
        ('"\\ud800"', "surrogate"),
        ("\ufeff{}", "byte order mark"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        ('"a"'.encode("utf-16"), "not UTF-8"),
        (5, "must be text"),
        pytest.param("[" * 100_000, "deep", id="deep-open"),
        pytest.param("[" * 101 + "]" * 101, "nested more than 100 deep", id="deep"),
        pytest.param('"' + "x" * 70_000 + '"', "larger than 65536 bytes", id="large"),
    ],
)
def test_payload_text_that_does_not_survive_is_refused(text: Any, message: str) -> None:
    """Text that would come back as something else is refused in one line."""
    with pytest.raises(PayloadInvalid, match=message) as caught:
        from_text(text)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_payload_number_written_by_python_survives(number: float) -> None:
    """Every finite double within the bound survives in its own spelling."""
    if abs(number) > INTEGER_MAX:
        with pytest.raises(PayloadInvalid):
            from_text(repr(number))
    else:
        assert from_text(repr(number)).value == number


def test_result_of_none_is_nothing() -> None:
    """A handler that returns nothing stores nothing."""
    assert result_json(None) is None


def test_result_is_canonical_json_text() -> None:
    """A result is stored in the form that a payload has."""
    assert result_json({"b": 1.0, "a": "ä"}) == '{"a":"ä","b":1}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rows": [Decimal(1)]}, r"result\.rows\[0\] is of type Decimal.* give it as a string"),
        ("x" * PAYLOAD_BYTES_MAX, "result is larger than 65536 bytes"),
        (2**53, "result is 9007199254740992"),
    ],
)
def test_result_that_json_cannot_carry_is_refused_by_place(value: Any, message: str) -> None:
    """A result has the bounds of a payload and its own error."""
    with pytest.raises(ResultInvalid, match=message):
        result_json(value)
