"""Included where BERTH_OIDC_ISSUER is set."""

from django.urls import path

from berth.oidc.setup import CALLBACK
from berth.oidc.views import CodeView, StartView, callback

urlpatterns = [path("oidc/start", StartView.as_view()), path(CALLBACK, callback), path("oidc/code", CodeView.as_view())]
