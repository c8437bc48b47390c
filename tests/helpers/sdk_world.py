"""What the suite in ``tests/sdk`` needs of a running Berth, made as an operator would; and how it is run.

The suite runs in a process of its own: in the environment of one client's version, with nothing of ours but the check
of answers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers.cluster import DEPLOYMENT, REPOSITORY, Cluster, Person
from helpers.model import CACHE
from helpers.patience import eventually
from helpers.tiny_llama import write_tiny_llama

CALLER, ASLEEP = "tiny-caller", "tiny-asleep"
SUITE_TIMEOUT_S = 240
# All that tells a template's family is that it speaks of tools and of this mark.
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n{% if false %}<tool_call></tool_call>{% endif %}"
)


def make_world(cluster: Cluster, operator: Person, tenant_id: str, deployment_id: str) -> dict[str, str]:
    """``BERTH_SDK_WORLD``. The tenant's contract on its model allows ``batch`` as the tier "flex" from here on."""
    folder = CACHE / "tiny-caller"
    write_tiny_llama(folder, template=TEMPLATE, context=4096)
    model = operator.post("models", {"name": CALLER, "source_kind": "directory", "source": str(folder)})
    eventually(lambda: operator.get(f"models/{model['id']}")["state"] == "ready", "the tiny model is registered")
    shape = {"tenant": tenant_id, "model": model["id"], "service_class": "chat", "kv_bytes": 16 << 20}
    caller = operator.post("deployments", shape | {"name": CALLER})
    operator.post("deployments", shape | {"name": ASLEEP, "replica_count": 0})
    (contract,) = operator.get(f"contracts?tenant={tenant_id}&deployment={deployment_id}&state=current")["results"]
    operator.patch(f"contracts/{contract['id']}", {"tiers": {"flex": "batch"}})
    eventually(lambda: cluster.replicas(operator, caller["id"]), "the tiny model answers")

    def key(name: str, **more: Any) -> str:
        token: str = operator.post("keys", {"tenant": tenant_id, "name": f"sdk {name}", **more})["token"]
        return token

    return {
        "base_url": f"{cluster.base}/v1",
        "model": DEPLOYMENT,
        "caller": CALLER,
        "asleep": ASLEEP,
        "key": key("plain"),
        "single": key("single", max_concurrency=1),
        "small": key("small", tokens_per_minute=20),
        "bare": key("bare", scopes=["management:read"]),
    }


def run_suite(python: str | Path, world: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """pytest of the environment ``python`` is of; our own configuration and conftest stay out."""
    suite = REPOSITORY / "tests" / "sdk"
    command = [str(python), "-m", "pytest", "-q", "-rs", "--durations=3", "-p", "no:cacheprovider", str(suite)]
    command += ["-c", os.devnull, "--rootdir", str(suite.parent), "--confcutdir", str(suite)]
    command += ["--import-mode=importlib"]
    if str(python) == sys.executable:  # its plugins would want Django; langchain is not in it
        command += ["-p", "no:django", "-p", "no:asyncio", "--ignore", str(suite / "test_langchain.py")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "DJANGO_"))}
    environment |= {"BERTH_SDK_WORLD": json.dumps(world), "PYTHONPATH": str(REPOSITORY / "tests")}
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=SUITE_TIMEOUT_S, check=False
    )
