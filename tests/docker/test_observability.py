"""Dashboards, rules and the services that show them: every metric they name is one that a process exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

DOCKER = Path(__file__).resolve().parents[2] / "docker"
DASHBOARDS = sorted((DOCKER / "grafana" / "dashboards").glob("*.json"))
RULES = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text())
# Grafana's own, replaced before Prometheus sees them.
VARIABLES = {"$__rate_interval": "5m", "$__interval": "1m", "$__range": "1h"}
LABELS = {"tenant", "deployment", "class", "state", "reason", "why", "node", "device", "instance", "job", "le",
          "outcome", "code", "limit", "stream", "action", "task", "up", "rule"}  # fmt: skip


def expressions() -> Iterator[tuple[str, str]]:
    for path in DASHBOARDS:
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                yield f"{path.stem}: {panel['title']}", target["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"])
                assert found, variable
                yield f"{path.stem}: ${variable['name']}", f"count by ({found[2]}) ({found[1]})"
    for group in RULES["groups"]:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]


def plain(text: str) -> str:
    for name, value in VARIABLES.items():
        text = text.replace(name, value)
    return re.sub(r"\$\{?\w+\}?", ".*", text)


def walk(node: Any) -> Iterator[Any]:
    yield node
    for name in ("expr", "lhs", "rhs", "param", "vector_selector", "args"):
        inner = getattr(node, name, None)
        for one in inner if isinstance(inner, list) else [inner]:
            if one is not None and not isinstance(one, str | int | float):
                yield from walk(one)


def selectors(text: str) -> Iterator[Any]:
    for node in walk(promql_parser.parse(plain(text))):
        if isinstance(node, promql_parser.VectorSelector):
            yield node


@pytest.fixture
def exported(db: None) -> dict[str, set[str]]:
    """Sample name -> its labels, from the collectors of every process, each with something in it."""
    from prometheus_client.parser import text_string_to_metric_families

    from berth.observability import scheduler
    from helpers.observed import full_registries

    found: dict[str, set[str]] = {}
    texts = list(full_registries())
    scheduler.task_failures.labels("t")
    scheduler.actions.labels("a")
    scheduler.task_seconds.labels("t")
    from scheduler.metrics_port import render

    for text in [*texts, render(scheduler.REGISTRY).decode()]:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_there_are_four_dashboards_with_ids_of_their_own() -> None:
    ids = [json.loads(path.read_text())["uid"] for path in DASHBOARDS]
    assert ids == ["berth-deployments", "berth-fleet", "berth-platform", "berth-sla"]
    for path in DASHBOARDS:
        panels = json.loads(path.read_text())["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        for panel in panels:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= 24
            assert panel["type"] == "row" or panel["targets"]


def test_panels_do_not_lie_on_one_another() -> None:
    for path in DASHBOARDS:
        taken: set[tuple[int, int]] = set()
        for panel in json.loads(path.read_text())["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken, (path.stem, panel["title"])
            taken |= cells


def test_every_expression_is_promql_and_names_what_is_exported(exported: dict[str, set[str]]) -> None:
    recorded = {rule["record"] for group in RULES["groups"] for rule in group["rules"] if "record" in rule}
    count = 0
    for where, text in expressions():
        names = list(selectors(text))
        assert names, where
        for selector in names:
            count += 1
            if selector.name in recorded:
                continue
            assert selector.name in exported, (where, selector.name)
            asked = {matcher.name for matcher in selector.matchers.matchers}
            assert asked - {"job", "instance"} <= exported[selector.name], (where, selector.name, asked)
    assert count > 100


def test_groupings_name_labels_that_there_are() -> None:
    for where, text in expressions():
        for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", text):
            assert {name.strip() for name in names.split(",")} <= LABELS, where


def test_a_broken_expression_would_be_found() -> None:
    with pytest.raises(ValueError, match="parenthesis"):
        promql_parser.parse("sum by (tenant (rate(x[5m]))")


def test_the_rules_that_are_promised_are_there_and_burn_is_judged_in_two_windows() -> None:
    alerts = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule}
    assert {
        "BerthBudgetBurnsFast",
        "BerthBudgetBurnsSlowly",
        "BerthReplicaCrashLoop",
        "BerthNodeLost",
        "BerthBudgetNear",
    } <= set(alerts)
    for name, windows in (("BerthBudgetBurnsFast", {"1h", "5m"}), ("BerthBudgetBurnsSlowly", {"6h", "30m"})):
        assert set(re.findall(r"burn_rate:(\w+)", alerts[name]["expr"])) == windows
    for rule in alerts.values():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]


def test_the_optional_services_fit_the_first_file() -> None:
    base = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    more = yaml.safe_load((DOCKER / "compose.observability.yaml").read_text())
    for name, service in more["services"].items():
        assert name in base["services"] or {"image", "healthcheck"} <= set(service)
        assert set(service.get("secrets", [])) <= set(base["secrets"]), name
        assert set(service.get("networks", [])) <= set(base["networks"]), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DOCKER / source).is_dir() if source.startswith(".") else source in more["volumes"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    for name in ("web", "gateway", "scheduler"):  # the second file's list takes the place of the first's
        assert set(base["services"][name]["secrets"]) <= set(more["services"][name]["secrets"])
    assert "database_url" not in more["services"]["agent"]["secrets"]


def test_prometheus_asks_every_kind_of_process_at_its_port_with_the_token() -> None:
    jobs = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert {job["job_name"] for job in jobs} == {"berth-web", "berth-gateway", "berth-scheduler", "berth-agent"}
    more = yaml.safe_load((DOCKER / "compose.observability.yaml").read_text())["services"]
    ports = {job["job_name"]: job["dns_sd_configs"][0]["port"] for job in jobs}
    assert more["scheduler"]["environment"]["BERTH_SCHEDULER_METRICS"].endswith(f":{ports['berth-scheduler']}")
    assert more["agent"]["environment"]["BERTH_AGENT_METRICS"].endswith(f":{ports['berth-agent']}")
    assert {job["authorization"]["credentials_file"] for job in jobs} == {"/run/secrets/metrics_token"}
    assert "location = /metrics { return 404; }" in (DOCKER / "nginx.conf").read_text()
