"""What a key may: its scopes, the deployments it is made for, and the secret before a rotation."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from berth.tenants import keys
from helpers.gateway import DEPLOYMENT, MODEL, TENANT, Running, chat, make_route
from helpers.stub_door import StubDoor


async def models(running: Running, token: str | None = None, name: str = "") -> tuple[int, Any]:
    url = f"{running.base}/v1/models{name}"
    async with running.http.get(url, headers={"Authorization": f"Bearer {token or running.token}"}) as answer:
        return answer.status, json.loads(await answer.read())


async def asked(running: Running, token: str | None = None, **values: Any) -> tuple[int, str | None]:
    """(status, error code)."""
    headers = {"Authorization": f"Bearer {token or running.token}"}
    async with running.post(chat(stream=False, **values), headers=headers) as answer:
        body = json.loads(await answer.read())
    return answer.status, body.get("error", {}).get("code")


def change_key(running: Running, **values: Any) -> None:
    (key,) = running.keeper.current.keys.values()
    running.keeper.change(keys={key.id: replace(key, **values)})


async def test_a_key_without_inference_opens_nothing_here(running: Running, door: StubDoor) -> None:
    change_key(running, inference=False)
    assert await asked(running) == (403, "insufficient_permissions")
    status, body = await models(running)
    assert (status, body["error"]["code"]) == (403, "insufficient_permissions")
    assert "inference" in body["error"]["message"]
    assert door.calls == []
    wrong = running.token[:-1] + ("A" if running.token[-1] != "A" else "B")
    assert await asked(running, wrong) == (401, "invalid_api_key"), "only who has the secret learns its scopes"


async def test_a_key_made_for_a_deployment_reaches_and_sees_no_other(running: Running, door: StubDoor) -> None:
    routes = {**running.keeper.current.routes, (TENANT, "other"): make_route("other", deployment="dep_two")}
    running.keeper.change(routes=routes)
    status, body = await models(running)
    assert [row["id"] for row in body["data"]] == ["other", MODEL], "without a limit all of the tenant's"

    change_key(running, deployments=frozenset({DEPLOYMENT}))
    assert await asked(running) == (200, None)
    calls = len(door.calls)
    assert await asked(running, model="other") == (403, "model_not_found")
    assert len(door.calls) == calls
    status, body = await models(running)
    assert (status, [row["id"] for row in body["data"]]) == (200, [MODEL])
    assert (await models(running, name=f"/{MODEL}"))[0] == 200
    status, body = await models(running, name="/other")
    assert (status, body["error"]["code"]) == (403, "model_not_found")
    assert await asked(running, model="nobodys") == (404, "model_not_found")

    change_key(running, deployments=frozenset({"dep_gone"}))
    assert (await models(running))[1]["data"] == [], "a key whose deployments are gone has none, not all"
    assert await asked(running) == (403, "model_not_found")


async def test_the_secret_before_a_rotation_works_until_its_grace_ends(running: Running) -> None:
    (key,) = running.keeper.current.keys.values()
    secret = keys.new_secret()
    digest, pepper = keys.digest_of(secret)
    old, new = running.token, f"{key.id}.{secret}"

    def rotate(until: float) -> None:
        change_key(running, digest=digest, pepper_id=pepper, previous=(key.digest, key.pepper_id, until))

    rotate(time.time() + 60)
    assert [await asked(running, token) for token in (new, old)] == [(200, None), (200, None)]
    rotate(time.time() - 0.001)
    assert [await asked(running, token) for token in (new, old)] == [(200, None), (401, "invalid_api_key")]
    change_key(running, previous=None)
    assert await asked(running, old) == (401, "invalid_api_key")
    rotate(time.time() + 60)
    change_key(running, expires_at=time.time() - 1)
    assert await asked(running, old) == (401, "invalid_api_key"), "grace is no longer than the key"
