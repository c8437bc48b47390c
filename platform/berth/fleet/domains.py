"""The one writer of a node's fault domain: what fails together with it, as a rack."""

from __future__ import annotations

from django.db import transaction

from berth.audit.services import record
from berth.core.notify import changed, nudge_scheduler
from berth.fleet.models import Node


@transaction.atomic
def set_fault_domain(*, node: Node, fault_domain: str, actor: str) -> Node:
    """Empty: the node alone. Replicas that sit are not moved for it; new ones are spread by it."""
    row = Node.objects.select_for_update().get(id=node.id)
    if row.fault_domain != fault_domain:
        before = {"fault_domain": row.fault_domain}
        row.fault_domain = fault_domain
        row.save(update_fields=["fault_domain"])
        record(actor=actor, action="node.change", obj=row, before=before, after={"fault_domain": fault_domain})
        changed("node", row.id)
        nudge_scheduler()
    return row
