"""``berth chat``: a conversation in the terminal, each answer with its TTFT, TPOT and verdict."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from berth.cli import operations
from berth.cli.client import Client, Failed
from berth.cli.terminal import Terminal, pass_terminal

PATH = "/v1/chat/completions"
HELP = "Type a message and Enter. /new begins anew, /quit or Ctrl-D ends."
REASONS = {
    "refused": "no replica had room",
    "failed": "the replica failed",
    "waking": "no replica was ready",
    "queued": "it waited in the queue for too long",
    "prefill": "reading the prompt took too long",
    "preempted": "it was set aside for others",
    "decode": "tokens came too slowly",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """``ttft_s`` and ``tpot_s``: as this terminal saw them; ``verdict``: the gateway's."""

    text: str
    ttft_s: float | None
    tpot_s: float | None
    verdict: dict[str, Any]


@click.command()
@click.argument("model")
@click.argument("message", required=False)
@click.option("--system", default="", help="A system prompt.")
@click.option("--max-tokens", type=click.IntRange(1), default=None)
@click.option("--temperature", type=click.FloatRange(0, 2), default=None)
@pass_terminal
def chat(
    terminal: Terminal,
    model: str,
    message: str | None,
    system: str,
    **sampling: float | None,
) -> None:
    """Talk to MODEL, a deployment's name. With MESSAGE, or text from a pipe, it answers once.

    Uses BERTH_CLI_API_KEY where it is set, else a key of ten minutes made with your sign-in.
    """
    body: dict[str, Any] = {"model": model, "stream": True}
    body |= {name: value for name, value in sampling.items() if value is not None}
    history = [{"role": "system", "content": system}] if system else []
    key = _Key(terminal)
    if message is None and not sys.stdin.isatty():
        message = sys.stdin.read().strip()
        if not message:
            raise Failed("There is no message: give one, or send it through a pipe")
    if message is not None:
        body["messages"] = [*history, {"role": "user", "content": message}]
        answer = ask(terminal.client, body, key.token(), (lambda _: None) if terminal.as_json else _say)
        _show(terminal, answer)
        return
    click.echo(f"{model}. {HELP}", err=True)
    _converse(terminal, body, history, key)


class _Key:
    """The key to chat with; one of ten minutes is made anew before it ends."""

    LIFE_S = 540.0

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._own = os.environ.get("BERTH_CLI_API_KEY", "")
        self._made = ""
        self._until = 0.0

    def token(self) -> str:
        if self._own:
            return self._own
        if time.monotonic() >= self._until:
            terminal = self._terminal
            answer = terminal.client.call(operations.PLAYGROUND, tenant=terminal.tenant_id)
            self._made, self._until = str(answer["token"]), time.monotonic() + self.LIFE_S
        return self._made


def _converse(terminal: Terminal, body: dict[str, Any], history: list[dict[str, str]], key: _Key) -> None:
    import readline  # noqa: F401 - arrows and history at the prompt

    start = list(history)
    while True:
        try:
            text = input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            click.echo(err=True)
            return
        if text in ("/quit", "/exit"):
            return
        if text == "/new":
            history = list(start)
            click.echo("A new conversation.", err=True)
            continue
        if not text:
            continue
        asked = [*history, {"role": "user", "content": text}]
        try:
            answer = ask(terminal.client, {**body, "messages": asked}, key.token(), _say)
        except Failed as error:
            click.echo(f"berth: {error}", err=True)
            continue
        except KeyboardInterrupt:  # closes the connection, which ends the generation
            click.echo(" (stopped)", err=True)
            continue
        _show(terminal, answer)
        history = [*asked, {"role": "assistant", "content": answer.text}]


def ask(client: Client, body: dict[str, Any], token: str, say: Callable[[str], None]) -> Answer:
    """Streams one answer through ``say``. Raises ``Failed``, also for an error in the middle of the stream."""
    began, first, last = time.monotonic(), None, 0.0
    texts: list[str] = []
    verdict: dict[str, Any] = {}
    for event in client.stream(PATH, body, token):
        if event.data == "[DONE]":
            break
        data = json.loads(event.data)
        if event.name == "berth.verdict":
            verdict = data
        elif "error" in data:
            raise Failed(str(data["error"].get("message", "The answer broke off")), code=str(data["error"].get("code")))
        for choice in data.get("choices", ()):
            if text := choice.get("delta", {}).get("content"):
                last = time.monotonic()
                first = last if first is None else first
                texts.append(text)
                say(text)
    tokens = int(verdict.get("tokens") or len(texts))
    ttft = None if first is None else first - began
    tpot = (last - first) / (tokens - 1) if first is not None and tokens > 1 else None
    return Answer("".join(texts), ttft, tpot, verdict)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _show(terminal: Terminal, answer: Answer) -> None:
    if terminal.as_json:
        terminal.document({"text": answer.text, "verdict": answer.verdict, **_seen_ms(answer)})
        return
    click.echo()
    click.secho(summary(answer), err=True, dim=True)


def _seen_ms(answer: Answer) -> dict[str, float | None]:
    seen = {"seen_ttft_ms": answer.ttft_s, "seen_tpot_ms": answer.tpot_s}
    return {name: None if value is None else round(1000 * value, 1) for name, value in seen.items()}


def summary(answer: Answer) -> str:
    """``TTFT 112 ms of 1000 · TPOT 24 ms · 48 tokens · good`` from the gateway's clock, else from this one's."""
    verdict = answer.verdict
    seen = _seen_ms(answer)
    ttft = verdict.get("ttft_ms", seen["seen_ttft_ms"])
    tpot = verdict.get("tpot_ms", seen["seen_tpot_ms"])
    parts = []
    if ttft is not None:
        limit = verdict.get("ttft_limit_ms")
        parts.append(f"TTFT {ttft:.0f} ms" + (f" of {limit:.0f}" if limit is not None else ""))
    if tpot is not None:
        parts.append(f"TPOT {tpot:.1f} ms")
    if verdict:
        parts.append(f"{verdict['tokens']} tokens")
        reason = verdict.get("reason") or ""
        parts.append("good" if verdict["good"] else f"not good: {REASONS.get(reason, reason) or 'late'}")
    return " · ".join(parts)
