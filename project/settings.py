"""Django settings, read from the environment. Without any variable set this is the embedded desk: one machine, SQLite.

``DATABASE_URL`` and ``REDIS_URL`` make it a production desk of many processes; ``README.md`` lists every variable.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

# Read when langgraph is imported: a checkpoint row that names a class must never construct it.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"

import environ
from csp.constants import NONE, SELF

from project.secret import checked_key, local_key

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.str("DATA_DIR", default=str(BASE_DIR / "data")))
DATABASE_URL: str = env.str("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'countersign.sqlite3'}")
REDIS_URL: str = env.str("REDIS_URL", default="")
DEBUG: bool = env.bool("DEBUG", default=False)
EMBEDDED = DATABASE_URL.startswith("sqlite:") and not REDIS_URL
# Served over TLS by a proxy in front, which sets X-Forwarded-Proto itself and drops the browser's.
HTTPS: bool = env.bool("HTTPS", default=not EMBEDDED and not DEBUG)

SECRET_KEY = (
    local_key(DATA_DIR / "secret_key")
    if EMBEDDED and "SECRET_KEY" not in os.environ
    else checked_key(env.str("SECRET_KEY", default=""), debug=DEBUG)
)
ALLOWED_HOSTS: list[str] = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CSRF_TRUSTED_ORIGINS", default=[])

# ---------------------------------------------------------------------------------------------------------- application

INSTALLED_APPS = [
    "daphne",  # first: it replaces runserver
    "agents",
    "reviews",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "csp",
    "axes",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "project.static.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",  # last, as axes asks: it turns its lock-out into an answer
]
ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Each form of an interrupt sends its fields for every action; a batch of many wide calls passes the usual 1,000.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 5_000
DATA_UPLOAD_MAX_MEMORY_SIZE = 12 * 1024 * 1024  # bytes; an argument of 5 MB, escaped, has to fit

_LOADERS = ["django.template.loaders.filesystem.Loader", "django.template.loaders.app_directories.Loader"]
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": _LOADERS if DEBUG else [("django.template.loaders.cached.Loader", _LOADERS)],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False  # one language; translating nothing cost each page a tenth of its time

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# The embedded desk serves the files where they lie; production runs collectstatic once and serves hashed names.
COLLECT_STATIC: bool = env.bool("COLLECT_STATIC", default=not EMBEDDED and not DEBUG)
STATIC_ROOT = env.str("STATIC_ROOT", default=str(BASE_DIR / "staticfiles")) if COLLECT_STATIC else None
WHITENOISE_USE_FINDERS = not COLLECT_STATIC
WHITENOISE_ALLOW_ALL_ORIGINS = False
_STORAGE = "whitenoise.storage.CompressedManifestStaticFilesStorage"
_PLAIN_STORAGE = "django.contrib.staticfiles.storage.StaticFilesStorage"
STORAGES = {"staticfiles": {"BACKEND": _STORAGE if COLLECT_STATIC else _PLAIN_STORAGE}}

# ------------------------------------------------------------------------------------------------------------- database


def database(url: str) -> dict[str, Any]:
    """Return Django's settings of the database at ``url``, with what each kind needs to be raced for."""
    config: dict[str, Any] = {**env.db_url_config(url), "CONN_MAX_AGE": 0}
    options: dict[str, Any] = config.setdefault("OPTIONS", {})
    if config["ENGINE"].endswith("sqlite3"):
        # A deferred transaction that turns into a writer cannot wait: racing clicks saw "database is locked".
        options |= {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
        }
        # Opening the file again costs more than most queries. The embedded desk never forks; an open connection of
        # SQLite's does not survive that.
        return config | {"CONN_MAX_AGE": None if EMBEDDED else 0}
    # A kept connection per thread ran PostgreSQL out of clients; a pool bounds them, checks drop what a restart broke.
    patience = env.float("DATABASE_POOL_SECONDS", default=5)  # then a page says that the database is away
    pool = {"min_size": 0, "max_size": env.int("DATABASE_POOL_SIZE", default=12), "timeout": patience, "max_idle": 60}
    # Statements of the checkpoint saver are planned once a connection. Django's own are not prepared either way.
    prepare = 0 if env.bool("DATABASE_PREPARE", default=True) else None
    options |= {"pool": pool, "connect_timeout": 5, "prepare_threshold": prepare}
    return config | {"CONN_HEALTH_CHECKS": True}


DATABASES = {"default": database(DATABASE_URL)}

# --------------------------------------------------------------------------------------------- broker and channel layer

REDIS_PREFIX: str = env.str("REDIS_PREFIX", default="countersign")  # several desks may share one Redis


def channel_layer() -> dict[str, Any]:
    """Return the layer that carries hints to browsers. A hint may be lost: pages ask again by themselves."""
    if not REDIS_URL:
        return {"BACKEND": "project.channel_layer.ThreadSafeInMemoryLayer", "CONFIG": {"capacity": 1_000}}
    # Without socket_timeout None redis-py 8 closes every idle socket each 5 s: django/channels_redis#422.
    host = {"address": REDIS_URL, "socket_timeout": None, "socket_connect_timeout": 1}
    return {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [host], "prefix": REDIS_PREFIX, "capacity": 1_000},
    }


CHANNEL_LAYERS = {"default": channel_layer()}

# Celery carries ids and may lose them: the database is the queue. So publishing gives up at once and nothing is kept.
CELERY_BROKER_URL = REDIS_URL or "embedded://localhost/"  # project.broker
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {
        "global_keyprefix": f"{REDIS_PREFIX}:",
        "socket_connect_timeout": 0.5,  # seconds; a reviewer waits for this when the broker hangs
        "socket_timeout": 5,
        "max_retries": 0,
    }
    if REDIS_URL
    else {}
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker outlives a broker that is away, however long
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_DEFAULT_QUEUE = "countersign"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False  # nobody asks, and its replies would fill the broker
CELERY_TIMEZONE = "UTC"
# By itself Celery closes Django's connections and their pool before and after each task: a run then waits for a new
# server process, which takes longer than all its statements. `project.celery` gives connections back instead.
CELERY_DB_REUSE_MAX = sys.maxsize

# ----------------------------------------------------------------------------------------------------------------- runs

LEASE_SECONDS: float = env.float("LEASE_SECONDS", default=30)  # how long a claim lasts without a heartbeat
HEARTBEAT_SECONDS: float = env.float("HEARTBEAT_SECONDS", default=10)
POLL_SECONDS: float = env.float("POLL_SECONDS", default=5)
STOP_SECONDS: float = env.float("STOP_SECONDS", default=0.5)  # how soon a worker notices that a run is to stop
STREAM_SECONDS: float = env.float("STREAM_SECONDS", default=0.105)  # between two writes of a run's stream
EVENT_SECONDS: float = env.float("EVENT_SECONDS", default=24 * 3600)  # how long the streams of runs that ended are kept
QUEUE_LIMIT: int = env.int("QUEUE_LIMIT", default=50)  # messages that may wait on one thread
METRICS_TOKEN: str = env.str("METRICS_TOKEN", default="")  # who brings it may read /metrics; administrators may anyway
RUN_MAX_SECONDS: float = env.float("RUN_MAX_SECONDS", default=3600)
RUN_MAX_ATTEMPTS: int = env.int("RUN_MAX_ATTEMPTS", default=5)  # a run that keeps killing its worker ends in error
REASON_NEEDED_FOR: list[str] = env.list("REASON_NEEDED_FOR", default=[])  # tools whose rejection needs one; "*": all
LANGGRAPH_JSON: str = env.str("LANGGRAPH_JSON", default="")  # path of a file that names further agents
AGENT_MODEL: str = env.str("AGENT_MODEL", default="scripted")  # "scripted" needs no key and no network

# ---------------------------------------------------------------------------------------------------- people and safety

SESSION_ENGINE = "reviews.sessions"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "reviews.sessions.SignedIn",  # in sessions; it checks no passwords
    "django.contrib.auth.backends.ModelBackend",  # checks them; and in sessions begun before there was the other
]
_VALIDATION = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": f"{_VALIDATION}.UserAttributeSimilarityValidator"},
    {"NAME": f"{_VALIDATION}.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": f"{_VALIDATION}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATION}.NumericPasswordValidator"},
]
LOGIN_URL = "reviews:sign-in"
LOGIN_REDIRECT_URL = "/"
CSRF_FAILURE_VIEW = "reviews.views.errors.csrf_failure"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"  # cookies would keep titles in the browser
# By name and address together: behind a proxy all people may share one address, and one must not lock out the rest.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT: int = env.int("SIGN_IN_FAILURES", default=6)
AXES_COOLOFF_TIME = 0.25  # hours
AXES_RESET_ON_SUCCESS = True
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
AXES_LOCKOUT_TEMPLATE = "locked_out.html"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "object-src": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]  # asked for from inside, without TLS
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "project.logs.JsonFormatter"},
        "plain": {"()": "project.logs.PlainFormatter"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain" if EMBEDDED else "json"}},
    "root": {"handlers": ["stderr"], "level": env.str("LOG_LEVEL", default="WARNING" if EMBEDDED else "INFO")},
    "loggers": {"django": {"handlers": [], "propagate": True}},
}
