from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0001_initial")]

    operations = [
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["replica_id"], name="decisions_of_a_replica"),
        ),
    ]
