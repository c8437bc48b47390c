"""What goes wrong: each class of error, what is tried again and what is not, time limits, and a client that leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from helpers.openai_answers import check_error

from .conftest import PATIENCE_S, World

USER: Any = [{"role": "user", "content": "Tell me a long story about a cat."}]


class Attempts:
    """A client's own HTTP client that counts what it sends."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.http = openai.DefaultHttpxClient(event_hooks={"response": [self._seen]})

    def _seen(self, response: Any) -> None:
        self.statuses.append(response.status_code)


@contextmanager
def error_of(kind: type[openai.APIStatusError], code: str) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    error = caught.value
    check_error(error.status_code, error.response.json())
    assert error.code == code
    assert error.request_id


def test_each_class_of_error(world: World, client: openai.OpenAI) -> None:
    asked: Any = {"model": world.model, "messages": USER, "max_tokens": 1}
    with error_of(openai.AuthenticationError, "invalid_api_key"):
        world.client("key_wrong.secret").chat.completions.create(**asked)
    with error_of(openai.PermissionDeniedError, "insufficient_permissions"):
        world.client(world.bare).chat.completions.create(**asked)
    with error_of(openai.NotFoundError, "model_not_found"):
        client.chat.completions.create(**asked | {"model": "none"})
    with error_of(openai.BadRequestError, "invalid_value"):
        client.chat.completions.create(**asked, temperature=9)
    with error_of(openai.BadRequestError, "context_length_exceeded"):
        client.chat.completions.create(**asked | {"messages": [{"role": "user", "content": "cat " * 20_000}]})
    with error_of(openai.RateLimitError, "rate_limit_exceeded"):
        world.client(world.small).chat.completions.create(**asked | {"max_tokens": 500})
    with error_of(openai.InternalServerError, "no_ready_replica"):
        client.chat.completions.create(**asked | {"model": world.asleep})


def test_what_may_pass_later_is_tried_again_when_we_say(world: World) -> None:
    attempts = Attempts()
    started = time.monotonic()
    with world.client(max_retries=1, http_client=attempts.http) as client, pytest.raises(openai.InternalServerError):
        client.chat.completions.create(model=world.asleep, messages=USER)
    assert attempts.statuses == [503, 503]
    assert time.monotonic() - started >= 2, "Retry-After is two seconds"


def test_what_can_never_pass_is_not_tried_again(world: World) -> None:
    attempts = Attempts()
    with (
        world.client(world.small, max_retries=3, http_client=attempts.http) as client,
        pytest.raises(openai.RateLimitError) as refusal,
    ):
        client.chat.completions.create(model=world.model, messages=USER, max_tokens=500)
    assert refusal.value.response.headers["x-should-retry"] == "false"
    assert attempts.statuses == [429]


def test_a_second_try_gets_in_when_the_place_is_free(world: World) -> None:
    """One at a time: the other stream ends while the client waits to try again."""

    async def scene() -> tuple[str | None, int]:
        first, second = world.async_client(world.single), world.async_client(world.single, max_retries=8)
        async with first, second:
            stream = await first.chat.completions.create(
                model=world.model, messages=USER, max_tokens=400, stream=True, temperature=0
            )
            await anext(aiter(stream))
            with pytest.raises(openai.RateLimitError):
                await first.chat.completions.create(model=world.model, messages=USER, max_tokens=1)
            waiting = asyncio.ensure_future(
                second.chat.completions.with_raw_response.create(model=world.model, messages=USER, max_tokens=1)
            )
            await asyncio.sleep(0.3)
            await stream.close()
            answer = await waiting
            return answer.parse().choices[0].message.content, answer.retries_taken

    text, retries = asyncio.run(scene())
    assert text
    assert retries >= 1


def test_a_client_that_leaves_ends_its_generation(world: World) -> None:
    """Its place is free at once, long before the tokens that it asked for could have been made."""
    with world.client(world.single) as client:
        stream = client.chat.completions.create(
            model=world.model, messages=USER, max_tokens=4000, stream=True, extra_body={"ignore_eos": True}
        )
        next(iter(stream))
        stream.close()
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = client.chat.completions.create(model=world.model, messages=USER, max_tokens=1)
                break
            except openai.RateLimitError:
                assert time.monotonic() < until
                time.sleep(0.05)
    assert answer.choices[0].finish_reason == "length"


def test_a_time_limit_of_the_client(world: World) -> None:
    with world.client(world.single) as client:
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.3).chat.completions.create(
                model=world.model, messages=USER, max_tokens=4000, extra_body={"ignore_eos": True}
            )
        assert client.with_options(max_retries=8).chat.completions.create(
            model=world.model, messages=USER, max_tokens=1
        )
