"""Stands in for the program ``vllm``: takes its command line, says what it is told to, keeps what it was sent.

``SCRIPTED_VLLM_SAYS``: a JSON list, the pieces of each answer. ``SCRIPTED_VLLM_ASKED``: the file that bodies go to, one
a line; its first line is the command line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from aiohttp import web

ARGUMENTS = sys.argv[1:]
ASKED = Path(os.environ["SCRIPTED_VLLM_ASKED"])


def argument(name: str) -> str:
    return ARGUMENTS[ARGUMENTS.index(name) + 1]


def note(what: object) -> None:
    with ASKED.open("a") as file:
        file.write(json.dumps(what) + "\n")


async def healthy(_: web.Request) -> web.Response:
    return web.Response()


async def models(_: web.Request) -> web.Response:
    return web.json_response({"data": [{"id": argument("--served-model-name"), "max_model_len": 512}]})


async def chat(request: web.Request) -> web.StreamResponse:
    note(await request.json())
    pieces = json.loads(os.environ["SCRIPTED_VLLM_SAYS"])
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    for number, piece in enumerate(pieces, 1):
        last = number == len(pieces)
        choice = {"index": 0, "delta": {"content": piece}, "finish_reason": "stop" if last else None}
        usage = {"prompt_tokens": 9, "completion_tokens": number, "total_tokens": 9 + number}
        await answer.write(b"data: " + json.dumps({"choices": [choice], "usage": usage}).encode() + b"\n\n")
    await answer.write(b"data: [DONE]\n\n")
    return answer


if __name__ == "__main__":
    note(ARGUMENTS)
    app = web.Application()
    app.add_routes([web.get("/health", healthy), web.get("/v1/models", models), web.post("/v1/chat/completions", chat)])
    web.run_app(app, host="127.0.0.1", port=int(argument("--port")), print=None)
