"""What a request is explained by, and the sums that pages are shown from; both made good for what is there."""

import django.db.models.manager
from decimal import Decimal
from django.db import migrations, models


MEMBERS = """
    UPDATE metering_usagerecord AS record SET member_id = made.created_by_id
    FROM tenants_apikey AS made
    WHERE made.id = record.key_id AND made.created_by_id IS NOT NULL
"""
USAGE = """
    INSERT INTO metering_usagehour (
        hour, tenant_id, deployment_id, class_name, key_id, member_id, deployment_name, requests, offered, good,
        prompt_tokens, cached_tokens, completion_tokens, good_tokens, cost
    )
    SELECT date_trunc('hour', arrived_at, 'UTC'), tenant_id, deployment_id, class_name, key_id, max(member_id),
        max(deployment_name), count(*), count(*) FILTER (WHERE offered), count(*) FILTER (WHERE good),
        sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens),
        coalesce(sum(completion_tokens) FILTER (WHERE good), 0), sum(cost)
    FROM metering_usagerecord GROUP BY 1, 2, 3, 4, 5
"""
MINUTES = """
    UPDATE metering_goodputminute SET offered = coalesce(("window"->>'offered')::bigint, 0),
        good = coalesce(("window"->>'good')::bigint, 0)
    WHERE "window" ? 'offered'
"""


class Migration(migrations.Migration):

    dependencies = [
        ('metering', '0001_initial'),
        ('tenants', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='GoodputSpan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seconds', models.PositiveIntegerField()),
                ('at', models.DateTimeField()),
                ('tenant_id', models.CharField(max_length=32)),
                ('deployment_id', models.CharField(blank=True, max_length=32)),
                ('class_name', models.CharField(blank=True, max_length=40)),
                ('window', models.JSONField()),
                ('offered', models.BigIntegerField(default=0)),
                ('good', models.BigIntegerField(default=0)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'related',
                'default_manager_name': 'objects',
            },
            managers=[
                ('objects', django.db.models.manager.Manager()),
                ('related', django.db.models.manager.Manager()),
            ],
        ),
        migrations.CreateModel(
            name='UsageHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('tenant_id', models.CharField(max_length=32)),
                ('deployment_id', models.CharField(blank=True, max_length=32)),
                ('class_name', models.CharField(blank=True, max_length=40)),
                ('key_id', models.CharField(blank=True, max_length=32)),
                ('member_id', models.CharField(blank=True, max_length=32)),
                ('deployment_name', models.CharField(blank=True, max_length=63)),
                ('requests', models.BigIntegerField(default=0)),
                ('offered', models.BigIntegerField(default=0)),
                ('good', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('good_tokens', models.BigIntegerField(default=0)),
                ('cost', models.DecimalField(decimal_places=10, default=Decimal('0'), max_digits=28)),
            ],
            options={
                'abstract': False,
                'base_manager_name': 'related',
                'default_manager_name': 'objects',
            },
            managers=[
                ('objects', django.db.models.manager.Manager()),
                ('related', django.db.models.manager.Manager()),
            ],
        ),
        migrations.AddField(
            model_name='goodputminute',
            name='good',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='goodputminute',
            name='offered',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='burst',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='cost',
            field=models.DecimalField(db_default=Decimal('0'), decimal_places=10, default=Decimal('0'), max_digits=22),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='e2e_limit_us',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='fluidity_floor',
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='max_gap_us',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='member_id',
            field=models.CharField(blank=True, db_default='', default='', max_length=32),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='node_id',
            field=models.CharField(blank=True, db_default='', default='', max_length=32),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='place',
            field=models.CharField(blank=True, db_default='', default='', max_length=160),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='queued_at_arrival',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='ready_at_arrival',
            field=models.BooleanField(null=True),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='running_at_arrival',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='slice_id',
            field=models.CharField(blank=True, db_default='', default='', max_length=32),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='stalls',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='tpot_limit_us',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='usagerecord',
            name='tries',
            field=models.PositiveSmallIntegerField(null=True),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(fields=['deployment_id', '-arrived_at'], name='usage_deployment'),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(fields=['key_id', '-arrived_at'], name='usage_key'),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(fields=['member_id', '-arrived_at'], name='usage_member'),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(fields=['replica_id', '-arrived_at'], name='usage_replica'),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(fields=['class_name', '-arrived_at'], name='usage_class'),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(condition=models.Q(('reason', ''), _negated=True), fields=['reason', '-arrived_at'], name='usage_bad'),
        ),
        migrations.AddIndex(
            model_name='usagerecord',
            index=models.Index(condition=models.Q(('reason', ''), _negated=True), fields=['tenant_id', '-arrived_at'], name='usage_bad_tenant'),
        ),
        migrations.AddIndex(
            model_name='goodputspan',
            index=models.Index(fields=['tenant_id', 'seconds', 'at'], name='goodput_span_tenant'),
        ),
        migrations.AddConstraint(
            model_name='goodputspan',
            constraint=models.UniqueConstraint(fields=('seconds', 'at', 'tenant_id', 'deployment_id', 'class_name'), name='one_row_a_spans_cell'),
        ),
        migrations.AddIndex(
            model_name='usagehour',
            index=models.Index(fields=['tenant_id', 'hour'], name='usage_hour_tenant'),
        ),
        migrations.AddConstraint(
            model_name='usagehour',
            constraint=models.UniqueConstraint(fields=('hour', 'tenant_id', 'deployment_id', 'class_name', 'key_id'), name='one_row_an_hours_cell'),
        ),
        *(migrations.RunSQL(sql, migrations.RunSQL.noop) for sql in (MEMBERS, USAGE, MINUTES)),
    ]
