"""Which lines without a hit are read when there is no time for all."""

from __future__ import annotations

import json

from pipeline.stream.messages import Message
from pipeline.stream.sampling import BURST, EVERY_S, ONE_OF, RATE, Sampler, signature


def _message(host: str, path: str, text: str = "x") -> Message:
    value = {"host": {"name": host}, "log": {"file": {"path": path}, "offset": 1}, "message": text}
    return Message("t", 0, 0, None, json.dumps(value).encode())


def test_streams_are_told_apart_before_anything_is_decoded() -> None:
    one = signature(_message("gn1", "/a"))
    assert one == signature(_message("gn1", "/a", "another text"))
    assert len({one, signature(_message("gn2", "/a")), signature(_message("gn1", "/b"))}) == 3
    raw = Message("t", 0, 0, None, b"text", {"host": "gn1", "source": "a"})
    assert signature(raw) != signature(Message("t", 0, 0, None, b"text", {"host": "gn2", "source": "a"}))


def test_all_lines_while_there_is_time() -> None:
    messages = [_message("gn1", "/a")] * 100
    assert Sampler().choose(messages, range(100), 0.0) == list(range(100))


def test_first_and_last_of_each_stream_when_there_is_not() -> None:
    sampler = Sampler()
    sampler.choose([], range(BURST), 0.0)
    assert sampler._left == 0
    messages = [_message(f"gn{n % 7}", "/a") for n in range(700)]
    found = [sampler.choose(messages, range(700), 0.0) for _ in range(ONE_OF)]
    assert [bool(x) for x in found].count(True) == 1
    assert max(found, key=len) == [*range(7), *range(693, 700)]
    again = [sampler.choose(messages, range(700), 0.01) for _ in range(2 * ONE_OF)]
    assert not any(again)  # each stream only now and then
    assert len(sampler.choose(messages, range(700), 0.02 + EVERY_S)) == 700  # by then there is time for all


def test_time_comes_back_at_the_rate() -> None:
    sampler = Sampler()
    sampler.choose([], range(BURST), 0.0)
    messages = [_message("gn1", "/a")] * (RATE // 2)
    assert len(sampler.choose(messages, range(len(messages)), 0.5)) == RATE // 2
