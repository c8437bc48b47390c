"""Rows of the whole database out and in, by COPY: no program of PostgreSQL's, any server version, one snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations import AddIndex, RemoveIndex
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

from berth.management.archive import BadArchive, Reader, Table, Writer

# What a house that was restored must begin without: sessions, who holds what, answers and failures of the last hours.
TRANSIENT = frozenset(
    {"api_firstanswer", "axes_accessattempt", "axes_accessattemptexpiration", "axes_accessfailurelog", "axes_accesslog",
     "core_lease", "django_migrations", "django_session", "tenants_usersession"}
)  # fmt: skip


class NewerVersion(ValueError):
    """The backup was made by a version that this one does not know."""


def our_tables() -> list[str]:
    """Those of the database that are Django's models', and its own."""
    return sorted({*connection.introspection.django_table_names(only_existing=True), *_own()})


def _own() -> set[str]:
    return {MigrationRecorder.Migration._meta.db_table} & set(connection.introspection.table_names())


def dump_tables(writer: Writer) -> None:
    """Inside a transaction that sees one snapshot."""
    manifest = writer.manifest
    recorder = MigrationRecorder(connection)
    manifest.migrations = sorted([app, name] for app, name in recorder.applied_migrations())
    for table in our_tables():
        if table in TRANSIENT:
            continue
        columns = _columns(table)
        statement = sql.SQL("COPY {} ({}) TO STDOUT").format(sql.Identifier(table), _identifiers(columns))
        with connection.cursor() as cursor, writer.member(f"database/{table}.copy") as member:
            with cursor.copy(statement) as copy:
                for block in copy:
                    member.write(block)
            manifest.tables[table] = Table(columns, cursor.rowcount)


def holds_data() -> bool:
    """Whether somebody lives in this database already."""
    if "tenants_user" not in connection.introspection.table_names():
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM tenants_user) OR EXISTS (SELECT 1 FROM audit_auditevent)")
        return bool(cursor.fetchone()[0])


def check_known(migrations: Iterable[list[str]]) -> None:
    """Raises ``NewerVersion``."""
    known = MigrationLoader(None).disk_migrations or {}  # of the code alone: no database is asked
    for app, name in migrations:
        if (app, name) not in known:
            raise NewerVersion(f"The backup comes from a newer version of Berth: this one has no {app}.{name}")


def load_tables(reader: Reader) -> None:
    """Replaces the whole database, inside the caller's transaction: the schema as it was, its rows, then the schema as
    this version has it."""
    drop = our_tables()
    with connection.cursor() as cursor:
        for table in drop:
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {} CASCADE").format(sql.Identifier(table)))
    executor = _executor()
    executor.migrate(_targets(executor, reader.manifest.migrations))
    with connection.cursor() as cursor:
        filled = [table for table in our_tables() if table != "django_migrations"]
        unknown = set(reader.manifest.tables) - set(filled)
        if unknown:
            raise BadArchive(f"The backup has a table {min(unknown)}, which its own migrations do not make")
        cursor.execute(sql.SQL("TRUNCATE {} CASCADE").format(_identifiers(filled)))
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")  # migrations leave some immediate, and rows come by table
        for table, what in reader.manifest.tables.items():
            _load(cursor, reader, table, what)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what is wrong is said here, and later steps may alter tables
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        _set_sequences(cursor)
    executor = _executor()
    executor.migrate(executor.loader.graph.leaf_nodes())


def _executor() -> MigrationExecutor:
    """Whose migrations all run inside a transaction: nobody else is there to be kept waiting by an index."""
    executor = MigrationExecutor(connection)
    for migration in executor.loader.graph.nodes.values():
        migration.operations = [_plain(operation) for operation in migration.operations]
    return executor


def _plain(operation: Operation) -> Operation:
    if isinstance(operation, AddIndexConcurrently):
        return AddIndex(operation.model_name, operation.index)
    if isinstance(operation, RemoveIndexConcurrently):
        return RemoveIndex(operation.model_name, operation.name)
    return operation


def _targets(executor: MigrationExecutor, applied: list[list[str]]) -> list[tuple[str, str]]:
    """The newest of each app: those that none of the others comes after."""
    keys = {(app, name) for app, name in applied}
    nodes = executor.loader.graph.node_map

    def is_newest(key: tuple[str, str]) -> bool:
        return not any(child.key in keys and child.key[0] == key[0] for child in nodes[key].children)

    return sorted(key for key in keys & set(nodes) if is_newest(key))


def _load(cursor: Any, reader: Reader, table: str, what: Table) -> None:
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), _identifiers(what.columns))
    with cursor.copy(statement) as copy:
        for block in reader.blocks(f"database/{table}.copy"):
            copy.write(block)
    if cursor.rowcount != what.rows:
        raise ValueError(f"{table}: {cursor.rowcount} rows instead of {what.rows}")


def _set_sequences(cursor: Any) -> None:
    """Numbers go on after the highest there is."""
    cursor.execute(
        "SELECT table_name, column_name, pg_get_serial_sequence(quote_ident(table_name), column_name)"
        " FROM information_schema.columns WHERE table_schema = current_schema()"
        " AND pg_get_serial_sequence(quote_ident(table_name), column_name) IS NOT NULL"
    )
    ours = set(our_tables())
    for table, column, sequence in cursor.fetchall():
        if table in ours:
            statement = sql.SQL("SELECT setval({}, COALESCE(MAX({}), 1), MAX({}) IS NOT NULL) FROM {}")
            name = sql.Identifier(column)
            cursor.execute(statement.format(sql.Literal(sequence), name, name, sql.Identifier(table)))


def _columns(table: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema()"
            " AND table_name = %s AND is_generated = 'NEVER' ORDER BY ordinal_position",
            [table],
        )
        return [row[0] for row in cursor.fetchall()]


def _identifiers(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))
