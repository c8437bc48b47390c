"""langchain-openai streams and calls a tool. The project's own environment, which has none, leaves this file out."""

from __future__ import annotations

from typing import Any, Literal

import langchain_openai
import pytest

from .conftest import World


def chat(world: World, model: str, **more: Any) -> Any:
    return langchain_openai.ChatOpenAI(model=model, base_url=world.base_url, api_key=world.key, max_retries=0, **more)


def weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather in a city."""
    return f"fine in {city}"


def test_a_stream(world: World) -> None:
    pieces = list(chat(world, world.model, temperature=0, stream_usage=True).stream("What is the capital of France?"))
    assert "".join(piece.content for piece in pieces) == "The capital of France is Paris."
    assert sum(piece.usage_metadata["output_tokens"] for piece in pieces if piece.usage_metadata) > 5


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool(world: World, streamed: bool) -> None:
    bound = chat(world, world.caller, seed=1, max_tokens=1500).bind_tools([weather], tool_choice="weather", strict=True)
    if streamed:
        first, *rest = bound.stream("hello")
        message = sum(rest, first)
    else:
        message = bound.invoke("hello")
    (call, *_) = message.tool_calls
    assert call["name"] == "weather"
    assert weather(**call["args"]).startswith("fine in ")


def test_embeddings(world: World) -> None:
    made = langchain_openai.OpenAIEmbeddings(
        model=world.model, base_url=world.base_url, api_key=world.key, check_embedding_ctx_length=False
    )
    assert len(made.embed_documents(["a cat", "a dog"])) == 2
