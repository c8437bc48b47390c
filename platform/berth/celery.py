"""The Celery application. One queue, one beat; periodic messages expire so that a dead worker finds no pile."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "berth.settings")

app = Celery("berth")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_default_queue="scheduler",
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    task_ignore_result=True,
    worker_hijack_root_logger=False,  # one format of logs everywhere: the settings' own
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 600, "socket_keepalive": True},
    imports=[
        "scheduler.tasks",
        "scheduler.planning",
        "scheduler.measuring",
        "berth.metering.tasks",
        "berth.catalog.tasks",
        "berth.alerts.tasks",
        "berth.fleet.tasks",
        "berth.decisions.tasks",
        "berth.management.tasks",
    ],
    beat_schedule={
        "reconcile": {"task": "scheduler.tasks.reconcile", "schedule": 2.0, "options": {"expires": 2}},
        "replan": {"task": "scheduler.planning.replan", "schedule": 60.0, "options": {"expires": 60}},
        "measure": {"task": "scheduler.measuring.measure", "schedule": 60.0, "options": {"expires": 60}},
        "old_plans": {"task": "scheduler.planning.forget", "schedule": 3600.0, "options": {"expires": 3600}},
        "ledger": {"task": "berth.metering.tasks.post_ledger", "schedule": 2.0, "options": {"expires": 2}},
        "alerts": {"task": "berth.alerts.tasks.evaluate", "schedule": 15.0, "options": {"expires": 15}},
        "alert_deliveries": {"task": "berth.alerts.tasks.deliver", "schedule": 10.0, "options": {"expires": 10}},
        "device_samples": {"task": "berth.fleet.tasks.sample_devices", "schedule": 10.0, "options": {"expires": 10}},
        "device_speeds": {"task": "berth.fleet.tasks.judge_speeds", "schedule": 60.0, "options": {"expires": 60}},
        "old_samples": {"task": "berth.fleet.tasks.forget_history", "schedule": 3600.0, "options": {"expires": 3600}},
        "old_decisions": {"task": "berth.decisions.tasks.forget", "schedule": 3600.0, "options": {"expires": 3600}},
        "old_rows": {"task": "berth.management.tasks.sweep_old", "schedule": 3600.0, "options": {"expires": 3600}},
        "registrations": {"task": "berth.catalog.tasks.resume", "schedule": 30.0, "options": {"expires": 30}},
    },
)
