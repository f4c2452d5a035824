import django.db.models.deletion
from django.db import migrations, models

_COLUMNS = "thread_id, ns, checkpoint_id, task_id, idx, task_path, run_id, channel, type, blob"
_COPY = f"insert into agents_{{}} ({_COLUMNS}) select {_COLUMNS} from agents_{{}}"  # noqa: S608


def _created(name):
    return migrations.CreateModel(
        name=name,
        fields=[
            ('pk', models.CompositePrimaryKey('thread_id', 'ns', 'checkpoint_id', 'task_id', 'idx', blank=True, editable=False, primary_key=True, serialize=False)),
            ('ns', models.TextField(blank=True)),
            ('checkpoint_id', models.CharField(max_length=64)),
            ('task_id', models.CharField(max_length=64)),
            ('idx', models.IntegerField()),
            ('task_path', models.TextField(blank=True)),
            ('run_id', models.CharField(blank=True, max_length=64)),
            ('channel', models.TextField()),
            ('type', models.CharField(max_length=20)),
            ('blob', models.BinaryField()),
            ('thread', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.thread')),
        ],
    )


class Migration(migrations.Migration):
    """Writes are found by where they belong; their numbers, and the index of those, served nobody."""

    dependencies = [
        ('agents', '0007_fork_token'),
    ]

    # A composite primary key can only be given to a table when it is made.
    operations = [
        _created('PlacedWrite'),
        migrations.RunSQL(
            _COPY.format('placedwrite', 'checkpointwrite'),
            _COPY.format('checkpointwrite', 'placedwrite'),
        ),
        migrations.DeleteModel(
            name='CheckpointWrite',
        ),
        migrations.SeparateDatabaseAndState(
            [
                migrations.RunSQL(
                    'alter table agents_placedwrite rename to agents_checkpointwrite',
                    'alter table agents_checkpointwrite rename to agents_placedwrite',
                ),
            ],
            [
                migrations.DeleteModel(
                    name='PlacedWrite',
                ),
                _created('CheckpointWrite'),
            ],
        ),
        migrations.AddIndex(
            model_name='checkpointwrite',
            index=models.Index(condition=models.Q(('run_id', ''), _negated=True), fields=['run_id'], name='write_run'),
        ),
    ]
