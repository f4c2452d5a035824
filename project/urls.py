"""The desk's pages, and the administration beside them."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from reviews.views import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("", include("reviews.urls")),
]

handler400 = "reviews.views.errors.bad_request"
handler403 = "reviews.views.errors.forbidden"
handler404 = "reviews.views.errors.not_found"
handler500 = "reviews.views.errors.server_error"
