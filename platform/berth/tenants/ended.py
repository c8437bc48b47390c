"""Ending sessions: the row goes, and the websocket that was opened with it closes at once."""

from __future__ import annotations

from django.db import transaction

from berth.audit.services import record
from berth.core.notify import session_ended
from berth.tenants.models import User, UserSession
from berth.tenants.sessions import kept


@transaction.atomic
def end_session(*, session: UserSession, actor: str) -> None:
    _end([session], actor)


@transaction.atomic
def end_sessions(*, user: User, actor: str, keep_session: str = "") -> int:
    """All of a person's but the one whose cookie is ``keep_session``. Returns how many there were."""
    rows = UserSession.objects.filter(user=user).exclude(session_key=kept(keep_session))
    return _end(list(rows.select_for_update()), actor)


def _end(rows: list[UserSession], actor: str) -> int:
    for row in rows:
        # Not the row as the object: its primary key is a digest of the cookie.
        before = {"id": row.id, "address": row.address, "agent": row.agent, "created_at": row.created_at}
        record(actor=actor, action="session.end", obj=row.user, before=before)
        UserSession.objects.filter(session_key=row.session_key).delete()
        session_ended(row.id)
    return len(rows)
