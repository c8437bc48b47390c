"""Rows for tests, made by the real services: a tenant with people, a ready model, a node with one device."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any

from berth.catalog.models import Model, ModelState
from berth.deployments.models import Deployment
from berth.deployments.services import create_deployment
from berth.fleet.models import Gpu, Node
from berth.fleet.services import create_node, observe_node
from berth.slas.services import ensure_default_classes
from berth.tenants.models import Role, Tenant, User
from berth.tenants.services import add_member, create_tenant
from gpuruntime import protocol
from gpuruntime.modelinfo import ModelFile, ModelInfo, memory_needs
from scheduler.geometry.boards import board

PASSWORD = "correct-horse-battery"
GIB = 1 << 30
_numbers = itertools.count(1)

# SmolLM2-135M-Instruct, as its converted directory says.
SMOL = ModelInfo(
    format="safetensors",
    architecture="LlamaForCausalLM",
    n_layers=30,
    n_heads=9,
    n_kv_heads=3,
    head_dim=64,
    hidden_size=576,
    intermediate_size=1536,
    vocab_size=49152,
    context_length=8192,
    dtype="BF16",
    tensor_types=("BF16",),
    quantization=None,
    rope_scaling="default",
    tied_embeddings=True,
    parameter_count=134_515_008,
    tensor_bytes=269_030_016,
    files=(ModelFile("config.json", 900), ModelFile("model.safetensors", 269_060_552)),
)


def unique(prefix: str) -> str:
    return f"{prefix}-{next(_numbers)}"


def make_tenant(name: str | None = None) -> Tenant:
    name = name or unique("tenant")
    return create_tenant(name=name, slug=name, actor="test")


def make_user(*, tenant: Tenant | None = None, role: str = Role.OWNER, operator: bool = False) -> User:
    """Without a password: hashing one takes longer than most tests. ``create_user`` makes people who sign in."""
    user = User(email=f"{unique('person')}@example.com", is_operator=operator)
    user.set_unusable_password()
    user.save()
    if tenant is not None:
        add_member(tenant=tenant, user=user, role=role, actor="test")
    return user


def make_model(name: str | None = None, **values: Any) -> Model:
    """A ready model whose row says what registration of SmolLM2 writes; it has no files on disk."""
    needs = memory_needs(SMOL)
    given = {
        "source_kind": "gguf",
        "source": "/models/smollm2.gguf",
        "state": ModelState.READY,
        "progress": 1.0,
        "architecture": SMOL.architecture,
        "parameters": SMOL.parameter_count,
        "context_length": SMOL.context_length,
        "weights_bytes": needs.weights_bytes,
        "kv_bytes_per_token": needs.kv_bytes_per_token,
        "workspace_bytes": needs.workspace_bytes,
        "default_sampling": {"temperature": 0.2, "top_p": 0.9},
        "digest": "d" * 64,
        "files": {"config.json": "a" * 64, "model.safetensors": "b" * 64},
        "size_bytes": SMOL.file_bytes,
        "header": asdict(SMOL),
    }
    return Model.objects.create(name=name or unique("model"), **{**given, **values})


def make_deployment(*, tenant: Tenant | None = None, name: str | None = None, **settings: Any) -> Deployment:
    """With its owner's contract; ``settings`` may hold model and service_class."""
    given = {"model": settings.pop("model", None) or make_model()}
    given["service_class"] = settings.pop("service_class", None) or ensure_default_classes()["chat"]
    return create_deployment(
        tenant=tenant or make_tenant(), name=name or unique("deployment"), actor="test", **given, **settings
    )


def device(index: int = 0, *, memory_bytes: int = 8 * GIB, units: int = 4, **values: Any) -> protocol.Device:
    given = {"uuid": f"CPU-{index}", "name": "CPU", "kind": "cpu"}
    return protocol.Device(index=index, memory_bytes=memory_bytes, units=units, **{**given, **values})


def cut_device(key: str, index: int = 0, **values: Any) -> protocol.Device:
    """A GPU of the board ``key``, which can be anything that GPUs can be."""
    known = board(key)
    given = {
        "uuid": f"GPU-{index}", "name": known.name, "kind": "gpu", "memory_bytes": known.memory_bytes,
        "units": known.units, "board": key, "kinds": ["mig", "mps", "time-slice", "whole"],
    }  # fmt: skip
    return device(index, **{**given, **values})


def hello(name: str, *devices: protocol.Device, **values: Any) -> protocol.Hello:
    given = {"provider": "cpu", "address": "127.0.0.1", "agent_version": "0.1.0", "boot_id": "boot", "cpu_count": 2}
    return protocol.Hello(node=name, memory_bytes=8 * GIB, devices=list(devices), **{**given, **values})


def make_node(name: str | None = None, *devices: protocol.Device) -> Node:
    """A node whose agent has said hello; one CPU device of 8 GiB in 4 units unless others are given."""
    node, _ = create_node(name=name or unique("node"), actor="test")
    return observe_node(node=node, seen=hello(node.name, *(devices or (device(),))))


def make_gpu(**values: Any) -> Gpu:
    return make_node(None, device(**values)).gpus.get()
