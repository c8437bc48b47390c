"""Any OpenAI-compatible server as a backend, against a real second process: our own door with a real model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuruntime.backend import BadPrompt, Delta, EngineFailed, Prompt, SamplingParams, TokenLogprob
from gpuruntime.external.openai_body import EXTENSIONS, UNGUIDED, scores_of, upstream_body
from gpuruntime.external.openai_server import OpenAIServerBackend
from gpuruntime.external.vllm import VllmBackend, find_vllm
from gpuruntime.protocol import EngineSettings, RuntimeConfig
from helpers.door import AUTH, TOKEN, RuntimeProcess
from helpers.model import smollm2_dir

__all__ = ["smollm2_dir"]
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def server(smollm2_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeProcess]:
    process = RuntimeProcess(tmp_path_factory.mktemp("upstream"), smollm2_dir)
    process.wait_for("ready", "failed")
    yield process
    process.end()


@pytest.fixture
async def backend(server: RuntimeProcess) -> AsyncIterator[OpenAIServerBackend]:
    backend = OpenAIServerBackend(server.url, "m", token=TOKEN, extensions=EXTENSIONS)
    yield backend
    await backend.stop()


async def run(backend: OpenAIServerBackend, params: SamplingParams, messages: Any = None) -> list[Delta]:
    prompt = await backend.prepare(messages or QUESTION, b"")
    return [delta async for delta in backend.generate("req_1", prompt, params)]


async def test_it_streams_and_counts_what_the_server_counts(
    server: RuntimeProcess, backend: OpenAIServerBackend
) -> None:
    info = await backend.start()
    assert (info.model, info.max_model_len) == ("m", 4096)
    deltas = await run(backend, SamplingParams(max_tokens=30, temperature=0))
    assert "".join(delta.text for delta in deltas) == "The capital of France is Paris."
    last = deltas[-1]
    assert (last.finish_reason, [delta.finish_reason for delta in deltas[:-1]]) == ("stop", [None] * (len(deltas) - 1))
    assert last.completion_tokens == sum(delta.new_tokens for delta in deltas)
    upstream = server.spooled()[-1]
    assert (last.completion_tokens, last.prompt_tokens) == (upstream["completion_tokens"], upstream["prompt_tokens"])
    assert last.timings is not None
    assert last.timings.ideal_s is None
    assert last.timings.cached_tokens == upstream["cached_tokens"]
    stats = backend.stats()
    assert (stats.running, stats.completion_tokens_total) == (0, last.completion_tokens)
    assert stats.busy_s_total > 0


async def test_every_sampling_field_reaches_the_server(backend: OpenAIServerBackend) -> None:
    await backend.start()
    greedy = await run(backend, SamplingParams(max_tokens=30, temperature=0, stop=(" of",)))
    assert "".join(delta.text for delta in greedy) == "The capital"
    seeded = [
        "".join(d.text for d in await run(backend, SamplingParams(12, 1.5, 0.9, 40, seed, ignore_eos=True)))
        for seed in (7, 7, 8)
    ]
    assert seeded[0] == seeded[1] != seeded[2]
    short = await run(backend, SamplingParams(max_tokens=3, temperature=0))
    assert (short[-1].finish_reason, short[-1].completion_tokens) == ("length", 3)


async def test_texts_and_ids_go_to_the_other_endpoint(backend: OpenAIServerBackend) -> None:
    await backend.start()
    ids = await backend.tokenize("Paris is the capital of")
    assert await backend.detokenize(ids) == "Paris is the capital of"
    assert len(await backend.tokenize(QUESTION)) > len(ids)
    texts = []
    for source in ("Paris is the capital of", ids):
        prompt = await backend.prepare_text(source, b"")
        deltas = [d async for d in backend.generate("req_t", prompt, SamplingParams(max_tokens=4, temperature=0))]
        texts.append("".join(delta.text for delta in deltas))
        assert (deltas[-1].completion_tokens, deltas[-1].prompt_tokens) == (4, len(ids))
    assert texts[0] == texts[1] != ""


async def test_what_a_server_was_not_said_to_know_is_refused(server: RuntimeProcess) -> None:
    plain = OpenAIServerBackend(server.url, "m", token=TOKEN)
    info = await plain.start()
    await plain.stop()
    assert info.refuses == EXTENSIONS | {"logprobs", "prompt_logprobs"} | UNGUIDED
    some = OpenAIServerBackend(server.url, "m", token=TOKEN, extensions=frozenset({"top_k", "min_p"}))
    assert (await some.start()).refuses == info.refuses - {"top_k", "min_p"}
    await some.stop()


def test_only_what_is_on_is_sent() -> None:
    """An empty field might be one the server does not know."""
    chat, text = Prompt(({"role": "user", "content": "x"},), None), Prompt((), None, text="x")
    always = {"model", "max_tokens", "temperature", "top_p", "stream", "stream_options"}
    assert set(upstream_body("m", chat, SamplingParams(5))) == always | {"messages"}
    assert set(upstream_body("m", text, SamplingParams(5))) == always | {"prompt"}
    given = SamplingParams(
        5, 0.5, 0.9, 7, 3, ("s",), True, 0.1, 0.2, 0.3, 1.5, ((4, -1.0),), 2, (6,), logprobs=3
    )  # fmt: skip
    body = upstream_body("m", Prompt((), (1, 2)), given)
    assert body | {"stream_options": None} == {
        "model": "m", "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "stream": True, "stream_options": None,
        "prompt": [1, 2], "top_k": 7, "seed": 3, "stop": ["s"], "ignore_eos": True, "min_p": 0.1,
        "presence_penalty": 0.2, "frequency_penalty": 0.3, "repetition_penalty": 1.5, "logit_bias": {"4": -1.0},
        "min_tokens": 2, "stop_token_ids": [6], "logprobs": 3, "return_tokens_as_token_ids": True,
    }  # fmt: skip
    assert upstream_body("m", chat, given)["top_logprobs"] == 3


def test_log_probabilities_of_both_shapes_are_read() -> None:
    expected = (TokenLogprob(5, -0.5, ((5, -0.5), (9, -2.0))), TokenLogprob(-1, -1.0))
    chat = [
        {"token": "token_id:5", "logprob": -0.5, "top_logprobs": [
            {"token": "token_id:5", "logprob": -0.5}, {"token": "token_id:9", "logprob": -2.0}]},
        {"token": " word", "logprob": -1.0},
    ]  # fmt: skip
    tops = [{"token_id:9": -2.0, "token_id:5": -0.5}, None]
    text = {"tokens": ["token_id:5", " word"], "token_logprobs": [-0.5, -1.0], "top_logprobs": tops}
    assert scores_of({"content": chat}) == scores_of(text) == expected
    assert scores_of(None) == scores_of({"content": None}) == ()


async def test_closing_the_iterator_ends_the_generation_upstream(
    server: RuntimeProcess, backend: OpenAIServerBackend
) -> None:
    await backend.start()
    before = len(server.spooled())
    prompt = await backend.prepare(QUESTION, b"")
    stream = backend.generate("req_2", prompt, SamplingParams(max_tokens=2000, ignore_eos=True))
    async for _ in stream:
        break
    await stream.aclose()
    async with asyncio.timeout(10):
        while len(server.spooled()) == before:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert server.spooled()[-1]["outcome"] == "client_left"
    assert backend.stats().running == 0


async def test_a_refusal_of_the_request_is_the_clients_to_know(backend: OpenAIServerBackend) -> None:
    await backend.start()
    with pytest.raises(BadPrompt) as caught:
        await run(backend, SamplingParams(max_tokens=5000))
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "max_tokens")


async def test_a_wrong_model_or_address_is_named(server: RuntimeProcess) -> None:
    wrong = OpenAIServerBackend(server.url, "other", token=TOKEN)
    with pytest.raises(ValueError, match="does not serve other; it serves: m"):
        await wrong.start()
    await wrong.stop()
    nobody = OpenAIServerBackend("http://127.0.0.1:9", "m")
    with pytest.raises(ValueError, match=r"no OpenAI-compatible server answers at http://127\.0\.0\.1:9"):
        await nobody.start()
    await nobody.stop()


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (
            ['{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'],
            "broke|without",
        ),
        (['{"error":{"message":"out of memory"}}'], "out of memory"),
        (["not json"], "not JSON"),
    ],
)
async def test_a_server_that_breaks_is_an_engine_failure(frames: list[str], message: str) -> None:
    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    async def completions(request: web.Request) -> web.StreamResponse:
        assert (await request.json())["stream"] is True
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for frame in frames:
            await response.write(f"data: {frame}\n\n".encode())
        return response

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.post("/v1/chat/completions", completions)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    backend = OpenAIServerBackend(f"http://127.0.0.1:{port}", "m")
    try:
        await backend.start()
        with pytest.raises(EngineFailed, match=message):
            await run(backend, SamplingParams(max_tokens=3))
    finally:
        await backend.stop()
        await runner.cleanup()


def config(**engine: Any) -> RuntimeConfig:
    return RuntimeConfig(
        replica_id="r", deployment="d", model_path="", served_model_name="m", token="t", run_file="",
        engine=EngineSettings(engine="vllm", **engine),
    )  # fmt: skip


def test_vllm_that_is_missing_is_said_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BERTH_VLLM_BIN", raising=False)
    with pytest.raises(ValueError, match="set BERTH_VLLM_BIN"):
        find_vllm()
    monkeypatch.setenv("BERTH_VLLM_BIN", str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="absent"):
        find_vllm()


async def test_a_vllm_that_ends_early_fails_the_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, smollm2_dir: Path
) -> None:
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("BERTH_VLLM_BIN", str(program))
    settings = config()
    settings.model_path = str(smollm2_dir)
    with pytest.raises(ValueError, match="exit code 3"):
        await VllmBackend(settings).start()


def test_the_key_of_the_child_is_not_on_its_command_line() -> None:
    backend = VllmBackend(config(extra_args=["--enforce-eager"], max_model_len=128))
    arguments = backend.arguments()
    environment = backend._environment()
    assert environment["VLLM_API_KEY"] not in " ".join(arguments)
    assert arguments[-1] == "--enforce-eager"
    assert json.dumps(AUTH) not in " ".join(arguments)
