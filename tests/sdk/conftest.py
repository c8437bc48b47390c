"""The official client against a Berth that runs. Nothing of ours is imported but the check of answers: this suite runs
in environments that hold one version of the client each (``make test-sdk``) and in the project's own.

``BERTH_SDK_WORLD`` is what ``helpers.sdk_world`` made of the running system, as JSON: where it is, and a key for each
purpose.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest

PATIENCE_S = 60.0


@dataclass(frozen=True)
class World:
    """``single``: may ask one thing at a time; ``small``: 20 tokens a minute; ``bare``: no right to ask at all.

    ``asleep``: a model without a replica; ``caller``: one whose template knows tools.
    """

    base_url: str
    model: str
    caller: str
    asleep: str
    key: str
    single: str
    small: str
    bare: str

    def client(self, key: str = "", **options: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.base_url, api_key=key or self.key, **self.options(options))

    def async_client(self, key: str = "", **options: Any) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=self.base_url, api_key=key or self.key, **self.options(options))

    def options(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"max_retries": 0, "timeout": PATIENCE_S} | given


@pytest.fixture(scope="session")
def world() -> World:
    return World(**json.loads(os.environ["BERTH_SDK_WORLD"]))


@pytest.fixture(scope="session")
def client(world: World) -> Iterator[openai.OpenAI]:
    with world.client() as opened:
        yield opened


def pytest_report_header() -> str:
    return f"openai {openai.__version__}"
