"""Streams one answer with OpenAI's own client, then shows what was counted.

pip install openai
KEY=key_….secret python examples/openai_client.py "What is the capital of France?"
"""

from __future__ import annotations

import os
import sys

from openai import OpenAI


def main() -> None:
    client = OpenAI(api_key=os.environ["KEY"], base_url=os.environ.get("BASE_URL", "http://localhost:8000/v1"))
    question = sys.argv[1] if len(sys.argv) > 1 else "What is the capital of France?"
    stream = client.chat.completions.create(
        model=os.environ.get("MODEL", "smollm2-135m"),
        messages=[{"role": "user", "content": question}],
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    for chunk in stream:
        if chunk.choices:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
        if chunk.usage is not None:
            print(f"\n({chunk.usage.prompt_tokens} prompt tokens, {chunk.usage.completion_tokens} generated)")


if __name__ == "__main__":
    main()
