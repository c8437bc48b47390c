"""A database and a Redis of the script's own, with Django over them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpuruntime.modelinfo import ModelInfo

if TYPE_CHECKING:
    from berth.catalog.models import Model

# SmolLM2-135M-Instruct, as its files say.
SMOL = ModelInfo(
    format="safetensors", architecture="LlamaForCausalLM", n_layers=30, n_heads=9, n_kv_heads=3, head_dim=64,
    hidden_size=576, intermediate_size=1536, vocab_size=49152, context_length=8192, dtype="BF16",
    tensor_types=("BF16",), quantization=None, rope_scaling="default", tied_embeddings=True,
    parameter_count=134_515_008, tensor_bytes=269_030_016, files=(),
)  # fmt: skip


@contextmanager
def database() -> Iterator[None]:
    """Migrated and empty; one a process, before anything of Django is imported."""
    with tempfile.TemporaryDirectory(prefix="berth-bench-") as home:
        Path(home).chmod(0o711)
        os.environ |= {"BERTH_HOME": home, "DJANGO_SETTINGS_MODULE": "berth.settings"}
        from berth.embedded.postgres import EmbeddedPostgres
        from berth.embedded.redis import EmbeddedRedis

        postgres, redis = EmbeddedPostgres(Path(home) / "postgres"), EmbeddedRedis(Path(home) / "redis")
        os.environ |= {"BERTH_DATABASE_URL": postgres.url, "BERTH_REDIS_URL": redis.url}
        try:
            import django

            django.setup()
            from django.core.management import call_command

            call_command("migrate", verbosity=0)
            yield
        finally:
            redis.stop()
            postgres.stop()


def listed_model() -> Model:
    """A ready model without files on disk."""
    from berth.catalog.models import Model, ModelState

    return Model.objects.create(
        name="listed", source_kind="file", source="/listed", state=ModelState.READY, header=asdict(SMOL)
    )
