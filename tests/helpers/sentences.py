"""The sentences that our code says to people, read from its source: what the console's catalogues must hold.

A sentence travels as text (through a runtime's last words, an agent's report, a row, an audit entry), so its English
template is its id, as with gettext: every value in it is ``{}``, as the console reads it back out.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What the driver's codes mean and what is to be done: sentences as well.
XIDS = "scheduler/health/xids.json"

# What a person meets in the console. Not: what is printed in a terminal, and a request's clauses, which have codes.
SPEAKING = (
    *(
        f"platform/berth/{app}/*.py"
        for app in ("alerts", "api", "audit", "catalog", "core", "decisions", "deployments")
    ),
    *(f"platform/berth/{app}/*.py" for app in ("fleet", "gateway", "metering", "options", "slas", "tenants")),
    *("platform/berth/bounded_body.py", "platform/berth/oidc/views.py", "gpuruntime/bounded_http.py"),
    *("scheduler/placing.py", "scheduler/reconcile.py", "scheduler/health/faults.py", "scheduler/health/machine.py"),
    *("scheduler/seating.py", "platform/berth/plans/*.py"),
    *(
        f"scheduler/packing/{name}.py"
        for name in ("compact", "insertion", "moves", "needs", "plans", "refusals", "replan")
    ),
    *(f"scheduler/planner/{name}.py" for name in ("cuts", "execution", "fleet", "plans", "promises")),
    *(
        "scheduler/node/providers/cpu.py",
        "scheduler/node/modelcache.py",
        "scheduler/node/process.py",
        "scheduler/node/replica.py",
    ),
    "scheduler/node/slices/words.py",
    *(
        f"gpuruntime/door/{name}.py"
        for name in ("admission", "asked", "embeddings", "generate", "replica", "run", "serve")
    ),
    *(f"gpuruntime/loading/{name}.py" for name in ("convert", "gguf_config", "gguf_tensors", "gguf_tokenizer")),
    *(f"gpuruntime/loading/{name}.py" for name in ("template", "tokenizer", "weights")),
    *("gpuruntime/gguf_header.py", "gpuruntime/models/config.py"),
    *(
        "gpuruntime/modelinfo.py",
        "gpuruntime/openai_checks.py",
        "gpuruntime/openai_depth.py",
        "gpuruntime/openai_refusals.py",
    ),
)
SILENT = {
    *("reference.py", "schema.py", "figures.py", "history.py", "summaries.py", "rollups.py"),
    *("explain.py", "models.py", "mails.py", "smtp.py", "messages.py", "ids.py", "scoping.py", "sealing.py"),
    *("tracing.py", "line.py", "forward.py", "frames.py", "export.py", "observe.py", "streams.py", "ledger.py"),
    "spending.py",
}
SILENT_CALLS = {
    *("debug", "info", "warning", "error", "exception", "log", "execute", "RawSQL", "compile", "OpenApiParameter"),
    *("extend_schema", "extend_schema_view", "extend_schema_field", "TypeError", "KeyError", "RuntimeError", "Func"),
    *("RedisTimeoutError", "HttpResponse", "StreamingHttpResponse", "say", "basicConfig", "ArgumentParser", "write"),
}
SILENT_ARGUMENTS = {"help_text", "help", "verbose_name", "content_type", "extra"}
_SAYS_SOMETHING = re.compile(r"[a-z]{2,}.* |[ ].*[a-z]{2,}", re.DOTALL)
_CODE = re.compile(
    r"^(\s*(SELECT|INSERT|WITH)|SUM\(|Bearer |Basic |HTTP |text/|attachment;|%|\^|[a-z_]+ [+>] )|\\[dw$]|\x00"
)
# Descriptions for the schema, who acts (names), and what only a fault in our code would say.
_NOT_SAID = {
    "a change without a seat after it starts nothing",
    "{} by {}",
    "up to {} of {}, split by commas; a minus in front sorts downwards; absent values last",
    "words, each of which is part of: {}; of a|b one is enough",
}


def sentences() -> dict[str, str]:
    """Each template, with the file that says it."""
    found: dict[str, str] = {}
    for pattern in SPEAKING:
        for path in sorted(ROOT.glob(pattern)):
            if path.name not in SILENT:
                for template in _said(ast.parse(path.read_text())):
                    found.setdefault(template, str(path.relative_to(ROOT)))
    table = json.loads((ROOT / XIDS).read_text())
    for text in (*table["actions"].values(), *(row["meaning"] for row in table["xids"])):
        found.setdefault(text, XIDS)
    return found


def _said(tree: ast.Module) -> Iterator[str]:
    silent = set(_silent(tree))
    inside = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in _parts(node)}
    for node in ast.walk(tree):
        if node in silent or node in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            template = "".join("{}" if isinstance(v, ast.FormattedValue) else _text(v) for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            template = re.sub(r"\{[a-z_]*\}", "{}", node.value)
        else:
            continue
        if _SAYS_SOMETHING.search(template.replace("{}", "")) and not _CODE.search(template):
            if template in _NOT_SAID:
                continue
            yield template


def _silent(tree: ast.Module) -> Iterator[ast.AST]:
    """Docstrings, and what goes to logs, the database or the schema."""
    for node in ast.walk(tree):
        quiet: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            quiet = [node.value]
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            quiet = [node] if name in SILENT_CALLS else []
            quiet += [keyword.value for keyword in node.keywords if keyword.arg in SILENT_ARGUMENTS]
        for one in quiet:
            yield from ast.walk(one)


def _parts(node: ast.JoinedStr) -> Iterator[ast.AST]:
    """The pieces of an f-string, without what its values are made of."""
    for value in node.values:
        yield value
        if isinstance(value, ast.FormattedValue) and value.format_spec is not None:
            yield from ast.walk(value.format_spec)


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
