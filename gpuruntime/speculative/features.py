"""The features that an engine's settings ask for."""

from __future__ import annotations

from gpuruntime.engine.config import EngineConfig
from gpuruntime.engine.core import Feature
from gpuruntime.engine.executor import Executor
from gpuruntime.engine.runner import ModelRunner
from gpuruntime.speculative.draft import DraftProposer
from gpuruntime.speculative.ngram import NgramProposer
from gpuruntime.speculative.speculation import Speculation


def make_features(config: EngineConfig, draft_executor: Executor | None) -> tuple[Feature, ...]:
    """``draft_executor`` runs the small model where ``speculation`` is "draft"."""
    if config.speculation == "ngram":
        return (Speculation(NgramProposer(), config.max_drafts),)
    if draft_executor is not None:
        proposer = DraftProposer(ModelRunner(draft_executor), draft_executor.num_blocks, config.max_num_batched_tokens)
        return (Speculation(proposer, config.max_drafts),)
    return ()
