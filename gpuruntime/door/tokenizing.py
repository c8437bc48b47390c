"""``POST /tokenize`` and ``POST /detokenize``, in vLLM's shapes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from gpuruntime.backend import BadPrompt, EngineFailed
from gpuruntime.door.arrival import ClientLeft, read_body
from gpuruntime.door.asked import refusing
from gpuruntime.door.chat_request import plain_messages
from gpuruntime.door.errors import ApiError, bad_request
from gpuruntime.door.replica import Replica
from gpuruntime.door.respond import send_error, send_json
from gpuruntime.openai_checks import check_ids, decode_detokenize, decode_tokenize


class Tokenizing:
    """``answer`` is ``tokenize`` or ``detokenize``."""

    def __init__(self, replica: Replica, answer: Callable[[Replica, bytes], Awaitable[dict[str, Any]]]) -> None:
        self._replica = replica
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(self._replica, await read_body(receive))
        except ClientLeft:
            return
        except BadPrompt as error:
            await send_error(send, bad_request(str(error), error.param, error.code))
        except EngineFailed as error:
            await send_error(send, ApiError(500, f"The engine failed: {error}", code="engine_failed"))
        except ApiError as error:
            await send_error(send, error)
        else:
            await send_json(send, 200, msgspec.json.encode(answer))


async def tokenize(replica: Replica, body: bytes) -> dict[str, Any]:
    backend, info = replica.require_ready()
    asked = refusing(lambda: decode_tokenize(body))
    if asked.model is not None:
        replica.require_model(asked.model)
    source = asked.prompt if asked.messages is None else plain_messages(asked.messages)
    special = asked.add_special_tokens is not False
    tokens = await backend.tokenize(source or "", special_tokens=special)
    answer: dict[str, Any] = {"count": len(tokens), "max_model_len": info.max_model_len, "tokens": tokens}
    answer["token_strs"] = None
    if asked.return_token_strs:
        answer["token_strs"] = [backend.token_bytes(token).decode("utf-8", "replace") for token in tokens]
    return answer


async def detokenize(replica: Replica, body: bytes) -> dict[str, Any]:
    backend, info = replica.require_ready()
    asked = refusing(lambda: decode_detokenize(body))
    if asked.model is not None:
        replica.require_model(asked.model)
    refusing(lambda: check_ids("tokens", asked.tokens, info.vocab_size))
    return {"prompt": await backend.detokenize(asked.tokens)}
