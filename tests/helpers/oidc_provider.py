"""A small OpenID Connect provider on this machine: discovery, keys, one page of consent, tokens signed with RS256.

What it signs is what a test says it is: the right claims, or any of them wrong.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from helpers.http_servers import LocalServer, QuietHandler, serving

CLIENT_ID = "berth-console"
SECRET = "canary-client-secret-7d1f"


@dataclass
class Person:
    """Who is signed in at the provider. ``claims`` replace or, where None, take away what would be signed."""

    email: str
    claims: dict[str, Any] = field(default_factory=dict)


class Provider(LocalServer):
    """``person``: who comes next; None: who declines. ``signer``: the key that signs, where not the one it tells."""

    person: Person | None = None
    signer: rsa.RSAPrivateKey | None = None
    discovery: dict[str, Any]

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, str]] = []
        self.tokens_sent = 0
        self.discovery = {}
        self.userinfo: dict[str, Any] = {}

    @property
    def variables(self) -> dict[str, str]:
        """Those of a Berth that trusts it."""
        return {
            "BERTH_OIDC_ISSUER": self.url,
            "BERTH_OIDC_CLIENT_ID": CLIENT_ID,
            "BERTH_OIDC_CLIENT_SECRET": SECRET,
            "BERTH_OIDC_LABEL": "Acme Login",
            "BERTH_OIDC_DOMAINS": "example.com, acme.test",
        }

    def id_token(self, asked: dict[str, str], person: Person) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.url,
            "aud": CLIENT_ID,
            "sub": hashlib.sha256(person.email.encode()).hexdigest()[:16],
            "iat": now,
            "exp": now + 300,
            "nonce": asked.get("nonce"),
            "email": person.email,
            "email_verified": True,
            "name": "Ann of Acme",
        }
        claims |= person.claims
        signed = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(signed, self.signer or self.key, algorithm="RS256", headers={"kid": "one"})


class _Handler(QuietHandler):
    server: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        provider = self.server
        if parts.path == "/.well-known/openid-configuration":
            self._json(_document(provider.url) | provider.discovery)
        elif parts.path == "/keys":
            key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(provider.key.public_key()))
            self._json({"keys": [key | {"kid": "one", "use": "sig", "alg": "RS256"}]})
        elif parts.path == "/authorize":
            self._authorize(query)
        elif parts.path == "/userinfo":
            self._json(provider.userinfo)
        else:
            self.answer(404)

    def do_POST(self) -> None:
        """The token, once a code, to the client with its secret and the verifier of its challenge."""
        form = {name: values[0] for name, values in parse_qs(self.body().decode()).items()}
        asked = self.server.codes.pop(form.get("code", ""), None)
        challenge = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proven = base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
        whole = asked is not None and (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, SECRET)
        if not whole or asked is None or proven != asked.get("code_challenge") or self.server.person is None:
            self._json({"error": "invalid_grant"}, 400)
            return
        self.server.tokens_sent += 1
        token = self.server.id_token(asked, self.server.person)
        self._json({"access_token": secrets.token_hex(8), "token_type": "Bearer", "id_token": token})

    def _authorize(self, query: dict[str, str]) -> None:
        self.server.asked.append(query)
        answer = {"state": query.get("state", "")}
        if self.server.person is None:
            answer["error"] = "access_denied"
        else:
            answer["code"] = secrets.token_hex(8)
            self.server.codes[answer["code"]] = query
        self.answer(302, location=f"{query['redirect_uri']}?{urlencode(answer)}")

    def _json(self, body: dict[str, Any], status: int = 200) -> None:
        self.answer(status, json.dumps(body).encode(), content_type="application/json")


def _document(url: str) -> dict[str, Any]:
    return {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": f"{url}/token",
        "jwks_uri": f"{url}/keys",
        "userinfo_endpoint": f"{url}/userinfo",
        "response_types_supported": ["code"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    }


@contextlib.contextmanager
def running_provider() -> Iterator[Provider]:
    with serving(Provider()) as provider:
        yield provider
