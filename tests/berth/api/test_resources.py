"""Each resource of the REST API: who reads, who writes, what is refused."""

from __future__ import annotations

from typing import Any

from berth.deployments.services import create_replica
from berth.fleet.seats import reserve_seat
from berth.slas.services import ensure_default_classes
from berth.tenants.models import Tenant
from helpers.api_cases import BadInputCase, ReadCase, World, WriteCase, url
from helpers.factories import make_deployment, make_model, make_node, make_tenant, unique


class TestKeys(ReadCase, WriteCase, BadInputCase):
    path = "keys"

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        tenant = world.tenant.id
        return [
            ("developer", "post", self.url(), {"tenant": tenant, "name": "mine"}, 201),
            ("developer", "post", self.url(), {"tenant": tenant, "name": "mine", "requests_per_minute": 60}, 201),
            ("admin", "patch", self.url(self.make(world.tenant)), {"tokens_per_minute": 9, "max_concurrency": 1}, 200),
            ("admin", "post", self.url(self.make(world.tenant), "revoke"), None, 200),
            ("admin", "delete", self.url(self.make(world.tenant)), None, 204),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        tenant = world.tenant.id
        return [
            ("post", self.url(), {"tenant": tenant}, "name"),
            ("post", self.url(), {"tenant": tenant, "name": "x" * 121}, "name"),
            ("post", self.url(), {"tenant": tenant, "name": "a\0b"}, "name"),
            ("post", self.url(), {"tenant": tenant, "name": "x", "expires_at": "soon"}, "expires_at"),
            ("post", self.url(), {"tenant": tenant, "name": "x", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
            ("post", self.url(), {"name": "x"}, "tenant"),
            ("post", self.url(), {"tenant": tenant, "name": "x", "requests_per_minute": 0}, "requests_per_minute"),
            ("patch", self.url(self.make(world.tenant)), {"max_concurrency": -1}, "max_concurrency"),
            ("patch", self.url(self.make(world.tenant)), {"tokens_per_minute": 2**31}, "tokens_per_minute"),
        ]


class TestDeployments(ReadCase, WriteCase, BadInputCase):
    path = "deployments"

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        body = {"tenant": world.tenant.id, "name": unique("new"), "model": make_model().id, "service_class": "chat"}
        running = self.make(world.tenant)
        stopped = make_deployment(tenant=world.tenant, desired_state="stopped")
        return [
            ("admin", "post", self.url(), body, 201),
            ("admin", "patch", self.url(running), {"default_max_tokens": 7}, 200),
            ("admin", "post", self.url(running, "scale"), {"replicas": 3}, 200),
            ("admin", "post", self.url(running, "clone"), {"name": unique("copy")}, 201),
            ("admin", "post", self.url(running, "stop"), None, 200),
            ("admin", "post", self.url(running, "start"), None, 200),
            ("admin", "delete", self.url(stopped.id), None, 204),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        good = {"tenant": world.tenant.id, "name": "new", "model": make_model().id, "service_class": "chat"}
        half = make_model(state="registering").id
        one = self.make(world.tenant)
        return [
            *(("post", self.url(), {**good, name: value}, name) for name, value in [
                ("name", "not a slug"), ("name", ""), ("model", "none"), ("model", half), ("service_class", "none"),
                ("engine", "magic"), ("dtype", "int1"), ("kv_dtype", "fp8"), ("max_model_len", 8193),
                ("max_model_len", "x"), ("max_num_seqs", 0), ("kv_bytes", 1), ("kv_bytes", 1 << 60),
                ("replica_count", -1), ("default_max_tokens", 0), ("default_max_tokens", 5000),
            ]),
            ("post", self.url(), {**good, "engine": "vllm", "dtype": "int8"}, "dtype"),
            *(("post", self.url(), {k: good[k] for k in good if k != name}, name) for name in good if name != "tenant"),
            ("post", self.url(one, "scale"), {"replicas": 1001}, "replicas"),
            ("post", self.url(one, "scale"), {}, "replicas"),
            ("post", self.url(one, "clone"), {"name": "a b"}, "name"),
            ("patch", self.url(one), {"default_max_tokens": "many"}, "default_max_tokens"),
        ]  # fmt: skip


class TestReplicas(ReadCase):
    path = "replicas"


class TestContracts(ReadCase, WriteCase, BadInputCase):
    path = "contracts"

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        body = {"tenant": make_tenant().id, "deployment": make_deployment().id, "service_class": "batch"}
        return [
            ("operator", "post", self.url(), body, 201),
            ("operator", "patch", self.url(self.make(world.tenant)), {"guaranteed_requests_per_min": 10}, 200),
            ("operator", "delete", self.url(self.make(world.tenant)), None, 204),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        ensure_default_classes()
        good = {"tenant": world.other.id, "deployment": make_deployment().id, "service_class": "chat"}
        return [
            *(("post", self.url(), {**good, name: value}, name) for name, value in [
                ("tenant", "none"), ("deployment", "none"), ("service_class", "none"), ("weight", 0),
                ("guaranteed_requests_per_min", 0), ("guaranteed_tokens_per_min", 1 << 31), ("max_concurrency", "many"),
            ]),
            ("patch", self.url(self.make(world.tenant)), {"weight": None}, "weight"),
        ]  # fmt: skip


class TestUsage(ReadCase):
    path = "usage"
    id_field = "request_id"


class TestAudit(ReadCase):
    path = "audit"
    reads = "admin"


class TestGpus(ReadCase):
    path = "gpus"
    platform_wide = True
    reads = "operator"


class TestSlices(ReadCase):
    path = "slices"
    platform_wide = True
    reads = "operator"


class TestDecisions(ReadCase):
    path = "decisions"


class TestPlans(ReadCase):
    path = "plans"
    platform_wide = True
    reads = "operator"


class TestRequests(ReadCase):
    path = "requests"
    id_field = "request_id"


class TestTenants(WriteCase, BadInputCase):
    path = "tenants"

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        return [
            ("operator", "post", self.url(), {"name": "New", "slug": unique("slug")}, 201),
            ("admin", "patch", self.url(world.tenant.id), {"name": unique("name")}, 200),
            ("operator", "patch", self.url(world.tenant.id), {"weight": len(unique("w" * 3))}, 200),
            ("operator", "patch", self.url(world.tenant.id), {"tokens_per_minute": len(unique("t" * 9))}, 200),
            ("admin", "patch", self.url(world.tenant.id), {"admits_uncounted": False}, 200),
            ("admin", "patch", self.url(world.tenant.id), {"admits_uncounted": True}, 200),
            ("operator", "patch", self.url(world.tenant.id), {"suspended": True}, 200),
            ("operator", "patch", self.url(world.tenant.id), {"suspended": False}, 200),
        ]

    def test_every_change_leaves_its_event(self, world: World) -> None:
        client = world.client("operator")
        client.patch(self.url(world.tenant.id), {"weight": 9, "name": "Nine"}, format="json")
        events = client.get(url("audit") + f"?object={world.tenant.id}&action=tenant.change").json()["results"]
        assert [e["after"] for e in events] == [{"name": "Nine", "weight": 9}]
        assert events[0]["before"]["weight"] == 1

    def test_limits_are_the_operators_and_null_lifts_them(self, world: World) -> None:
        address = self.url(world.tenant.id)
        assert world.client("admin").patch(address, {"requests_per_minute": 5}, format="json").status_code == 403
        for limit in (5, None):
            answer = world.client("operator").patch(address, {"requests_per_minute": limit}, format="json")
            assert (answer.status_code, answer.json()["requests_per_minute"]) == (200, limit)

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        return [
            ("post", self.url(), {"name": "x"}, "slug"),
            ("post", self.url(), {"name": "x", "slug": "a b"}, "slug"),
            ("post", self.url(), {"slug": "ab"}, "name"),
            ("patch", self.url(world.tenant.id), {"weight": 0}, "weight"),
            ("patch", self.url(world.tenant.id), {"requests_per_minute": 0}, "requests_per_minute"),
            ("post", self.url(), {"name": "x", "slug": "ab", "max_concurrency": "many"}, "max_concurrency"),
            ("patch", self.url(world.tenant.id), {"suspended": "perhaps"}, "suspended"),
        ]


class TestClasses(ReadCase, WriteCase, BadInputCase):
    path = "classes"
    platform_wide = True

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        return [
            ("operator", "post", self.url(), {"name": unique("class"), "tpot_ms": 40}, 201),
            ("operator", "patch", self.url(self.make(world.tenant)), {"base_ms": 300}, 200),
            ("operator", "patch", self.url(self.make(world.tenant)), {"isolation": "mig"}, 200),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        return [
            ("post", self.url(), {"name": "no slug"}, "name"),
            ("post", self.url(), {"name": "x", "tpot_ms": 0}, "tpot_ms"),
            ("post", self.url(), {"name": "x", "fluidity_floor": 1.1}, "fluidity_floor"),
            ("post", self.url(), {"name": "x", "isolation": "bare-metal"}, "isolation"),
            ("patch", self.url(self.make(world.tenant)), {"base_ms": "soon"}, "base_ms"),
        ]


class TestModels(ReadCase, WriteCase, BadInputCase):
    path = "models"
    platform_wide = True

    def make(self, tenant: Tenant) -> str:
        return make_model().id

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        source = {"source_kind": "package", "source": "package:berth-none==1/model.gguf"}
        return [
            ("operator", "post", self.url(), {"name": unique("model"), **source}, 201),
            ("operator", "delete", self.url(self.make(world.tenant)), None, 204),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        good = {"name": "new", "source_kind": "package", "source": "package:p==1/model.gguf"}
        one = self.make(world.tenant)
        return [
            ("post", self.url(), {**good, "name": "no slug"}, "name"),
            ("post", self.url(), {**good, "source_kind": "magic"}, "source_kind"),
            ("post", self.url(), {**good, "source": "package:p"}, "source"),
            ("post", self.url(), {**good, "source": "package:p==1/../x"}, "source"),
            ("post", self.url(), {**good, "source_kind": "directory", "source": "/etc"}, "source"),
            ("post", self.url(one, "fit"), {"kv_bytes": 1}, "kv_bytes"),
            ("post", self.url(one, "fit"), {"max_model_len": 9000}, "max_model_len"),
            ("post", self.url(one, "fit"), {"dtype": "fp8"}, "dtype"),
            ("post", self.url(one, "fit"), {"service_class": "none"}, "service_class"),
            ("post", self.url(one, "fit"), {"isolation": "none"}, "isolation"),
            ("post", self.url(one, "fit"), {"guaranteed_tokens_per_s": -1}, "guaranteed_tokens_per_s"),
            ("post", self.url(one, "fit"), {"engine": "vllm", "kv_dtype": "int8"}, "kv_dtype"),
        ]


class TestNodes(ReadCase, WriteCase, BadInputCase):
    path = "nodes"
    platform_wide = True
    reads = "operator"

    def make(self, tenant: Tenant) -> str:
        node = make_node()
        for _ in range(2):
            replica = create_replica(deployment=make_deployment(tenant=tenant), reason="")
            reserve_seat(replica=replica, gpu=node.gpus.get(), memory_bytes=1)
        return node.id

    def attempts(self, world: World) -> list[tuple[str, str, str, Any, int]]:
        return [
            ("operator", "post", self.url(), {"name": unique("node")}, 201),
            ("operator", "patch", self.url(self.make(world.tenant)), {"cordoned": True}, 200),
            ("operator", "patch", self.url(self.make(world.tenant)), {"fault_domain": "rack 3"}, 200),
        ]

    def bad_bodies(self, world: World) -> list[tuple[str, str, Any, str]]:
        return [
            ("post", self.url(), {}, "name"),
            ("post", self.url(), {"name": "a/b"}, "name"),
            ("patch", self.url(self.make(world.tenant)), {"cordoned": "perhaps"}, "cordoned"),
            ("patch", self.url(self.make(world.tenant)), {"fault_domain": "x" * 64}, "fault_domain"),
        ]
