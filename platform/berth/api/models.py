"""What the REST API itself remembers: first answers, by the caller's Idempotency-Key."""

from __future__ import annotations

from django.db import models


class FirstAnswer(models.Model):
    """The answer of one POST. Written in the transaction of what it answers: both are there, or neither."""

    caller = models.CharField(max_length=32, help_text="a person's or a key's id")
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64, help_text="HMAC of method, path and body: a body may hold a password")
    status = models.PositiveSmallIntegerField(default=0)
    sealed = models.TextField(blank=True, help_text="the body, encrypted: it may hold a token that is shown once")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["caller", "key"], name="one_answer_a_key")]
