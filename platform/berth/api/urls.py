"""Every route of ``/api/v1``."""

from __future__ import annotations

from django.urls import path, re_path
from drf_spectacular.views import SpectacularAPIView
from rest_framework.routers import SimpleRouter

import berth.api.schema  # noqa: F401 - registers how the schema names the session cookie
from berth.alerts.api import AlertView, RouteView
from berth.api.errors import unknown_route
from berth.api.search import SearchView
from berth.audit.api import AuditView
from berth.catalog.api import ModelView
from berth.decisions.api import DecisionView
from berth.deployments.api import DeploymentView, ReplicaView
from berth.fleet.api import GpuView, NodeView, SliceView
from berth.fleet.map_api import FleetMapView
from berth.metering.accounting_api import ChargebackCsvView, ChargebackView, ReconciliationView
from berth.metering.api import GoodputView, UsageView
from berth.metering.budgets_api import BudgetsView
from berth.metering.requests_api import RequestView
from berth.metering.slas_api import AttainmentView, ViolationsView
from berth.options.api import SettingView
from berth.plans.api import PlanView
from berth.slas.api import ContractView, ServiceClassView
from berth.tenants.api import KeyView, MemberView, TenantView
from berth.tenants.invitation_api import AcceptView, InvitationView, LookView
from berth.tenants.me_api import (
    ConfirmFactorView,
    FactorView,
    MeView,
    OneSessionView,
    PasswordView,
    RecoveryCodesView,
    SessionsView,
)
from berth.tenants.session_api import SessionView

router = SimpleRouter(trailing_slash=False)
router.register("tenants", TenantView, "tenant")
router.register("members", MemberView, "member")
router.register("invitations", InvitationView, "invitation")
router.register("keys", KeyView, "key")
router.register("models", ModelView, "model")
router.register("classes", ServiceClassView, "class")
router.register("contracts", ContractView, "contract")
router.register("deployments", DeploymentView, "deployment")
router.register("replicas", ReplicaView, "replica")
router.register("nodes", NodeView, "node")
router.register("gpus", GpuView, "gpu")
router.register("slices", SliceView, "slice")
router.register("decisions", DecisionView, "decision")
router.register("plans", PlanView, "plan")
router.register("usage", UsageView, "usage")
router.register("requests", RequestView, "request")
router.register("audit", AuditView, "audit")
router.register("alerts/routes", RouteView, "alert-route")
router.register("alerts", AlertView, "alert")
router.register("settings", SettingView, "setting")

urlpatterns = [
    path("session", SessionView.as_view()),
    path("me", MeView.as_view()),
    path("me/password", PasswordView.as_view()),
    path("me/sessions", SessionsView.as_view()),
    path("me/sessions/<str:id>", OneSessionView.as_view()),
    path("me/mfa", FactorView.as_view()),
    path("me/mfa/confirm", ConfirmFactorView.as_view()),
    path("me/mfa/recovery-codes", RecoveryCodesView.as_view()),
    path("invitations/look", LookView.as_view()),
    path("invitations/accept", AcceptView.as_view()),
    path("goodput", GoodputView.as_view()),
    path("budgets", BudgetsView.as_view()),
    path("usage/chargeback", ChargebackView.as_view()),
    path("usage/chargeback.csv", ChargebackCsvView.as_view()),
    path("usage/reconciliation", ReconciliationView.as_view()),
    path("fleet/map", FleetMapView.as_view()),
    path("slas/attainment", AttainmentView.as_view()),
    path("slas/violations", ViolationsView.as_view()),
    path("search", SearchView.as_view()),
    path("schema", SpectacularAPIView.as_view()),
    *router.urls,
    re_path(r"^.*$", unknown_route),
]
