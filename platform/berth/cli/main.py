"""The entry point, and signing in and out."""

from __future__ import annotations

import os
import sys

import click

from berth.cli import accounting, chat, credentials, deployments, keys, logs, operations
from berth.cli.client import Client, Failed
from berth.cli.terminal import Terminal, pass_terminal

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Group(click.Group):
    """Prints what failed as one line and ends with 1; bad usage ends with 2, Ctrl-C with 130."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except Failed as error:
            click.echo(f"berth: {error}", err=True)
            ctx.exit(1)
        except BrokenPipeError:  # whoever read us has enough
            sys.stderr.close()
            ctx.exit(0)


@click.group(cls=Group, context_settings=SETTINGS)
@click.option("--tenant", default="", metavar="NAME", help="Which tenant is meant: its id or slug.")
@click.option("--json", "as_json", is_flag=True, help="Print the API's answer as JSON.")
@click.pass_context
def berth(ctx: click.Context, tenant: str, as_json: bool) -> None:
    """Berth from a terminal. Begin with: berth login"""
    ctx.obj = Terminal(as_json=as_json, tenant=tenant)


@berth.command()
@click.option("--url", default="", help="Where Berth is, as https://berth.example.com.")
@click.option("--email", default="", help="Sign in as a person; the password is asked for.")
@pass_terminal
def login(terminal: Terminal, url: str, email: str) -> None:
    """Sign in with a key that has a management scope, or with --email as a person.

    Key and password are asked for, or read from a pipe; they are stored in a file that only you can read.
    """
    stored = credentials.Credentials((url or terminal.credentials.url).rstrip("/"), tenant=terminal.credentials.tenant)
    terminal.use(stored)
    if email:
        _sign_in(terminal.client, email)
    else:
        stored.key = _secret("Management key")
    answer, who = terminal.identity()
    path = credentials.save(stored, os.environ)
    terminal.said(answer, f"Signed in at {stored.url} as {who}. Kept in {path}")


def _sign_in(client: Client, email: str) -> None:
    client.call(operations.SESSION)  # sets the CSRF cookie
    password = _secret("Password")
    try:
        client.call(operations.SIGN_IN, email=email, password=password)
    except Failed as error:
        if error.code != "mfa_required":
            raise
        client.call(operations.SIGN_IN, email=email, password=password, code=_secret("Code of your authenticator"))


def _secret(what: str) -> str:
    """Typed without echo, or a line of a pipe: never an argument, which others on the machine could see."""
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True)).strip()
    line = sys.stdin.readline().strip()
    if not line:
        raise Failed(f"{what} is missing: type it, or send it as a line of standard input")
    return line


@berth.command()
def logout() -> None:
    """Forget the stored key or session."""
    credentials.forget(os.environ)
    click.echo("Signed out.")


@berth.command()
@pass_terminal
def whoami(terminal: Terminal) -> None:
    """Who is signed in, where, and in which tenants."""
    answer, who = terminal.identity()
    terminal.said(answer, f"{terminal.credentials.url}, as {who}")


berth.add_command(deployments.group)
berth.add_command(keys.group)
berth.add_command(logs.logs)
berth.add_command(accounting.usage)
berth.add_command(chat.chat)


def main() -> None:
    berth(prog_name="berth")


if __name__ == "__main__":
    main()
