"""What is written down while requests are served, well and badly: ids and codes, never a prompt, a key or an answer."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from berth.core.logs import JsonFormatter

PROMPT = "what-nobody-may-read-7c1f"


class Written(io.StringIO):
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def written() -> Iterator[Written]:
    """Everything that any logger of this process says, as the platform formats it."""
    stream = Written()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


async def test_a_gateway_and_a_door_write_no_prompt_no_key_and_no_text(redis_url: str, written: Written) -> None:
    from helpers.door import TOKEN, ScriptedBackend, open_door
    from helpers.gateway import chat, make_key, make_snapshot, running_gateway

    key, token = make_key()
    ids = []
    for backend in (ScriptedBackend(), ScriptedBackend(fail_after=2)):
        async with open_door(backend) as door:
            snapshot = make_snapshot([door.url], key, door_token=TOKEN, model="m")
            async with running_gateway(snapshot, token, redis_url) as running:
                messages = [{"role": "user", "content": PROMPT}]
                for body in (chat(model="m", messages=messages), chat(model="m", messages=messages, stream=False)):
                    async with running.post(body) as answer:
                        text = await answer.text()
                        ids.append(answer.headers["x-request-id"])
                async with running.post(chat(model="m", messages=[{"role": PROMPT, "content": PROMPT}])) as answer:
                    assert answer.status == 400
                async with running.post(b"{" + PROMPT.encode()) as answer:
                    assert answer.status == 400
                wrong = {"Authorization": f"Bearer {token}x"}
                async with running.post(chat(), headers=wrong) as answer:
                    assert answer.status == 401
    assert text
    said = written.getvalue()
    assert PROMPT not in said
    assert token not in said
    assert token.partition(".")[2] not in said
    assert TOKEN not in said
    assert "w0 w1" not in said
    # The two that failed are there, by their ids.
    failed = [line for line in said.splitlines() if "outcome=" in line]
    assert any(ids[2] in line for line in failed)
    assert any(ids[3] in line for line in failed)


@pytest.mark.django_db
def test_rest_writes_the_request_id_and_no_password(written: Written) -> None:
    from rest_framework.test import APIClient

    client = APIClient()
    answer = client.post("/api/v1/session", {"email": "a@b.co", "password": PROMPT}, format="json")
    assert answer.status_code == 401
    for path in ("session", "keys", "nothing"):
        assert client.post(f"/api/v1/{path}?token={PROMPT}").status_code in (400, 401, 403, 404)
    assert {line["path"] for line in written.lines() if line["logger"] == "django.request"} >= {"/api/v1/session"}
    logging.getLogger("berth.test").info("event", extra={"tenant": "acme"})
    assert PROMPT not in written.getvalue()
    event = next(line for line in written.lines() if line["event"] == "event")
    assert (event["tenant"], event["level"], event["logger"]) == ("acme", "info", "berth.test")
    assert event["timestamp"].endswith("Z")


def test_what_is_bound_to_a_request_or_a_task_stands_in_every_line(written: Written) -> None:
    with structlog.contextvars.bound_contextvars(request_id="req_1"):
        logging.getLogger("berth.test").warning("inside")
    logging.getLogger("berth.test").warning("outside")
    found = {line["event"]: line.get("request_id") for line in written.lines() if line["logger"] == "berth.test"}
    assert found == {"inside": "req_1", "outside": None}


def test_a_task_goes_on_with_the_request_that_asked_for_it() -> None:
    from types import SimpleNamespace

    from berth.core.logs import current_request_id
    from berth.observability import scheduler

    task = SimpleNamespace(name="t", request=SimpleNamespace(headers={}, berth_request_id="req_7"))
    scheduler._begins(task_id="1", task=task)
    assert current_request_id() == "req_7"
    scheduler._ends(task_id="1", task=task)
    assert current_request_id() == ""
