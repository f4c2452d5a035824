"""The project: settings, addresses and the processes that run the desk."""

from project.celery import app as celery_app  # so that shared tasks find their broker in every process

__all__ = ["celery_app"]
