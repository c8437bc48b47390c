"""Classes and deployments that a simulated fleet's file names for the first start."""

from __future__ import annotations

from pathlib import Path

import pytest

from berth.deployments.models import Deployment
from berth.management.showcase import BadShowcase, show
from berth.slas.models import Contract, ServiceClass
from berth.slas.services import ensure_default_classes
from helpers.factories import make_model, make_tenant

pytestmark = pytest.mark.django_db
EXAMPLE = Path(__file__).parents[3] / "examples" / "fleet-8xh100.toml"


def test_the_example_makes_four_deployments_beside_the_demo() -> None:
    ensure_default_classes()
    made = show(EXAMPLE, demo=make_tenant("demo"), model=make_model(), actor="test")
    found = {(row.tenant.slug, row.name, row.service_class.name, row.service_class.isolation) for row in made}
    assert found == {
        ("acme", "assistant", "chat-mig", "mig"),
        ("acme", "autocomplete", "code", "time-slice"),
        ("globex", "reports", "batch", "time-slice"),
        ("globex", "advisor", "dedicated", "whole"),
    }
    promised = Contract.objects.for_platform().get(deployment__name="assistant", valid_until=None)
    assert promised.guaranteed_tokens_per_min == 60_000
    assert promised.terms["isolation"] == "mig"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[deployment]]\nreplicas = 1", "needs a name"),
        ("[[deployment]]\nname = 'a'\nservice_class = 'none'", "'a': no service class is named 'none'"),
        ("[[service_class]]\nname = 'a'\nisolation = 'none'", "'a': isolation is one of time-slice, mps, mig, whole"),
        ("[[service_class]]\nname = 'a'\nbase = 1", "'a': "),
        ("[[deployment", "fleet.toml: "),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, why: str) -> None:
    ensure_default_classes()
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(BadShowcase, match=why):
        show(path, demo=make_tenant("demo"), model=make_model(), actor="test")
    assert not Deployment.objects.for_platform().exists()
    assert ServiceClass.objects.count() == 4
