"""The relying party's half of OpenID Connect: allauth's, with the checks that it leaves to the transport.

The token's signature, issuer, audience, age and nonce are checked whatever way it came; the issuer that discovery names
is the configured one.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Any

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.http import HttpRequest

from berth.config import CONFIG
from berth.oidc.setup import CALLBACK, client_secret

PROVIDER = "oidc"
# Asymmetric ones alone: with HS256 the client's secret could sign, and "none" is no signature.
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
LEEWAY_S = 60
NEEDED = ["iss", "aud", "exp", "iat", "sub"]


class Identity(SocialLogin):
    """``claims``: what the provider signed of a person. Nothing of it is kept: the verified address says who it is."""

    claims: dict[str, Any]

    def lookup(self) -> None:
        """allauth's table of accounts at providers is not asked: there is none."""


class Client(OpenIDConnectOAuth2Adapter):
    def __init__(self, request: HttpRequest, provider_id: str = PROVIDER) -> None:
        super().__init__(request, provider_id)

    def get_provider(self) -> Provider:
        return Provider(self.request, app=_app())

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        base = CONFIG.public_url or request.build_absolute_uri("/").rstrip("/")
        return f"{base}/{CALLBACK}"

    @property
    def openid_config(self) -> dict[str, Any]:
        found: dict[str, Any] = super().openid_config
        if found.get("issuer") != CONFIG.oidc_issuer:
            raise OAuth2Error("The issuer that discovery names is another one")
        return found

    def complete_login(self, request: HttpRequest, app: SocialApp, token: Any, **kwargs: Any) -> Identity:
        claims = self._verified(kwargs["response"].get("id_token"), app.client_id)
        if "email" not in claims and "userinfo_endpoint" in self.openid_config:
            told = self._fetch_user_info(token.token)
            if told.get("sub") != claims["sub"]:
                raise OAuth2Error("The provider tells of another person than it signed for")
            claims |= {name: told[name] for name in ("email", "email_verified", "name") if name in told}
        account = SocialAccount(provider=PROVIDER, uid=str(claims["sub"])[:191])
        identity = Identity(account=account, provider=self.get_provider())
        identity.claims = claims
        return identity

    def _verified(self, id_token: str | None, client_id: str) -> dict[str, Any]:
        """Raises ``OAuth2Error``."""
        with get_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
            keys = answer.json()
        try:
            key_id = jwt.get_unverified_header(id_token or "").get("kid")
            ring = jwt.PyJWKSet.from_dict(keys).keys
            (key,) = [key for key in ring if key_id in (None, key.key_id)]
            claims: dict[str, Any] = jwt.decode(
                id_token or "",
                key.key,
                algorithms=ALGORITHMS,
                audience=client_id,
                issuer=CONFIG.oidc_issuer,
                leeway=LEEWAY_S,
                options={"require": NEEDED},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise OAuth2Error(f"The id token is none: {type(error).__name__}") from error
        if isinstance(claims["aud"], list) and claims.get("azp") != client_id and len(claims["aud"]) > 1:
            raise OAuth2Error("The id token was made for another client")
        return claims


class Provider(OpenIDConnectProvider):
    oauth2_adapter_class = Client

    def address(self, request: HttpRequest, next_url: str) -> str:
        """Where the browser goes to sign in. State, nonce and PKCE's verifier stay in its session."""
        nonce = secrets.token_urlsafe(24)
        params = {**self.get_auth_params(), "nonce": nonce}
        answer = self.redirect(request, "login", next_url=next_url, data={"nonce": nonce}, auth_params=params)
        return str(answer["Location"])


def check_nonce(identity: Identity) -> None:
    """That the token answers this browser's own question. Raises ``OAuth2Error``."""
    asked = str((identity.state.get("data") or {}).get("nonce", ""))
    if not asked or not hmac.compare_digest(asked.encode(), str(identity.claims.get("nonce", "")).encode()):
        raise OAuth2Error("The id token answers another question")


def _app() -> SocialApp:
    return SocialApp(
        provider="openid_connect",
        provider_id=PROVIDER,
        name=CONFIG.oidc_label,
        client_id=CONFIG.oidc_client_id,
        secret=client_secret(CONFIG),
        settings={"server_url": CONFIG.oidc_issuer, "oauth_pkce_enabled": True},
    )
