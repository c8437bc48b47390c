"""Two peers of the gateway before the same runtime: LiteLLM's proxy (Python) and SGLang's router (Rust).

Each as its documentation starts it for one model, with one process and without a database. Only LiteLLM asks for a key.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.common.children import Server, free_port
from benchmarks.common.peers import Command, environment


def litellm(upstream: str, model: str, key: str, home: Path) -> Server:
    config = {
        "model_list": [
            {
                "model_name": model,
                "litellm_params": {"model": f"openai/{model}", "api_base": f"{upstream}/v1", "api_key": "none"},
            }
        ],
        "general_settings": {"master_key": key},
    }
    file, port = home / "litellm.yaml", free_port()
    file.write_text(json.dumps(config))  # JSON is YAML
    command: Command = [
        environment("litellm") / "litellm",
        "--config",
        file,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    # Else it fetches a price list and writes a line a request.
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "DISABLE_ADMIN_UI": "True"}
    return Server("LiteLLM", command, port, env, note="it imports for some 20 s", health="/health/liveliness")


def sglang_router(upstream: str) -> Server:
    port = free_port()
    command: Command = [
        *(environment("sglang-router") / "python", "-m", "sglang_router.launch_router", "--worker-urls", upstream),
        *("--host", "127.0.0.1", "--port", str(port), "--policy", "round_robin", "--log-level", "error"),
        *("--prometheus-port", str(free_port())),
    ]
    return Server("sglang-router", command, port)
