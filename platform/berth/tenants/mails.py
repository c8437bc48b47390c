"""What people are written. Without a mail server (BERTH_SMTP_URL) nothing is sent, and the caller is told so."""

from __future__ import annotations

import logging
import smtplib

from django.conf import settings
from django.core.mail import send_mail

from berth.options.selectors import get as option
from berth.tenants.models import Invitation

log = logging.getLogger(__name__)


def can_mail() -> bool:
    return bool(settings.EMAIL_HOST) or not settings.EMAIL_BACKEND.endswith("smtp.EmailBackend")


def mail_invitation(invitation: Invitation, url: str) -> bool:
    """Whether a mail server took it. One that does not costs no invitation: the link is shown as well."""
    if not can_mail():
        return False
    platform = option("console_name")
    who = invitation.invited_by.email if invitation.invited_by else platform
    text = (
        f"{who} invites you to {invitation.tenant.name} on {platform}, as {invitation.role}.\n\n{url}\n\n"
        f"The link works once, until {invitation.expires_at:%d %B %Y, %H:%M} UTC. "
        "If you expected no invitation, ignore this mail.\n"
    )
    try:
        send_mail(f"You are invited to {invitation.tenant.name}", text, None, [invitation.email])
    except (OSError, smtplib.SMTPException) as error:
        log.warning("invitation_not_mailed", extra={"invitation": invitation.id, "error": type(error).__name__})
        return False
    return True
