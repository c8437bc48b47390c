"""Messages over real sockets: signed, tried again, never to an address inside; and mail."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from berth.alerts import addresses, messages, selectors, services
from berth.alerts.delivery import deliver
from berth.alerts.models import Delivery, DeliveryState
from berth.config import CONFIG
from helpers.factories import make_tenant, make_user
from helpers.http_servers import LocalServer, QuietHandler, serving

pytestmark = pytest.mark.django_db


class Receiver(LocalServer):
    status = 204
    location = ""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return f"{super().url}/hook"


class _Handler(QuietHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.got.append((self.lower_headers(), self.body()))
        self.answer(self.server.status, location=self.server.location)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving(Receiver()) as server:
        yield server


@pytest.fixture
def inside_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "CONFIG", dataclasses.replace(CONFIG, webhook_private=True))


def send_test(target: str, kind: str = "webhook", tenant: Any = None) -> Delivery:
    route = services.create_route(tenant=tenant, kind=kind, target=target, actor="t")
    services.test_route(route=route, actor="t")
    deliver(list(selectors.due(timezone.now())))
    return Delivery.objects.get(route=route)


@pytest.mark.usefixtures("inside_allowed")
def test_a_webhook_is_json_signed_as_standard_webhooks_say(receiver: Receiver) -> None:
    delivery = send_test(receiver.url)
    assert delivery.state == DeliveryState.DELIVERED
    [(headers, body)] = receiver.got
    assert json.loads(body)["type"] == "alert.test"
    assert headers["webhook-id"] == delivery.id
    secret = base64.b64decode(messages.signing_secret(delivery.route_id).removeprefix("whsec_"))
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    expected = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


@pytest.mark.usefixtures("inside_allowed")
def test_an_answer_that_is_not_2xx_is_tried_again_later_and_a_gone_receiver_is_not(receiver: Receiver) -> None:
    receiver.status = 500
    delivery = send_test(receiver.url)
    assert (delivery.state, delivery.error) == (DeliveryState.WAITING, "the receiver answered 500")
    deliver(list(selectors.due(timezone.now())))
    assert len(receiver.got) == 1  # not before it is due
    Delivery.objects.update(due_at=timezone.now())
    receiver.status = 200
    deliver(list(selectors.due(timezone.now())))
    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 2)
    assert receiver.got[0][0]["webhook-id"] == receiver.got[1][0]["webhook-id"]
    receiver.status = 410
    assert send_test(receiver.url + "2").state == DeliveryState.FAILED


@pytest.mark.usefixtures("inside_allowed")
def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.status, receiver.location = 307, receiver.url
    assert send_test(receiver.url).error == "the receiver answered 307"
    assert len(receiver.got) == 1


@pytest.mark.usefixtures("inside_allowed")
def test_nobody_there_is_said() -> None:
    assert "cannot connect" in send_test("http://127.0.0.1:9/").error


def test_a_name_that_leads_inside_is_refused_at_the_connection(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written down it looks public; what counts is the address found when it is connected to."""

    async def answers(*_: Any) -> list[dict[str, Any]]:
        return [{"hostname": "hooks.example.com", "host": "127.0.0.1", "port": receiver.server_port, "family": 2,
                 "proto": 6, "flags": 0}]  # fmt: skip

    monkeypatch.setattr("aiohttp.resolver.ThreadedResolver.resolve", answers)
    delivery = send_test(f"http://hooks.example.com:{receiver.server_port}/")
    assert delivery.state == DeliveryState.FAILED
    assert "inside this installation" in delivery.error
    assert receiver.got == []


@pytest.mark.parametrize("spelled", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1"])
def test_other_spellings_of_loopback_reach_nobody(receiver: Receiver, spelled: str) -> None:
    delivery = send_test(f"http://{spelled}:{receiver.server_port}/")
    assert delivery.state != DeliveryState.DELIVERED
    assert receiver.got == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    parsed = addresses.as_address(address)
    assert parsed is not None
    assert addresses.is_public(parsed) is public


def test_mail_goes_through_djangos_backend() -> None:
    tenant = make_tenant()
    person = make_user(tenant=tenant)
    assert send_test(person.email, "mail", tenant).state == DeliveryState.DELIVERED
    [message] = mail.outbox
    assert message.to == [person.email]
    assert message.subject == "[Berth] Test"


def test_the_resolver_hands_on_public_addresses_only() -> None:
    async def look() -> None:
        with pytest.raises(addresses.Refused):
            await addresses.PublicResolver().resolve("localhost", 80)

    asyncio.run(look())
