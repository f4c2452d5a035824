"""PostgreSQL and Redis for tests, on free ports, trusted on loopback only, with data that is thrown away.

``python -m project.services install``     installs what is missing, or says what to install
``python -m project.services run -- CMD``  starts both, runs CMD with DATABASE_URL, REDIS_URL, CHROMIUM set, stops both
``python -m project.services start``       starts both, prints the variables, and leaves them running
``python -m project.services stop``        stops what ``start`` started
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from project import scratch

STATE = Path(__file__).resolve().parent.parent / ".services" / "state.json"
NOTE = "servers.json"  # in the folder of servers that run beside a command
START_SECONDS = 60
HOST = "127.0.0.1"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
# what must be found -> Debian's package that holds it
PACKAGES = {"postgres": "postgresql", "initdb": "postgresql", "redis-server": "redis-server", CHROMIUMS[0]: "chromium"}


class Unavailable(Exception):
    """A service cannot be had here; the message says what to install or to look at."""


# -------------------------------------------------------------------------------------------------------------- finding


def find(program: str) -> str | None:
    """Return the path of ``program``: from PATH, or where Debian and Homebrew keep servers; None when it is nowhere."""
    if program in CHROMIUMS:
        named = os.environ.get("CHROMIUM", "")
        return next(filter(None, map(shutil.which, [named, *CHROMIUMS])), None)
    if found := shutil.which(program):
        return found
    patterns = ("usr/lib/postgresql/*/bin", "opt/homebrew/opt/postgresql*/bin", "usr/local/opt/postgresql*/bin")
    folders = [folder for pattern in patterns for folder in sorted(Path("/").glob(pattern), reverse=True)]
    return next((str(folder / program) for folder in folders if (folder / program).exists()), None)


def missing_packages() -> list[str]:
    return sorted({package for program, package in PACKAGES.items() if find(program) is None})


def install() -> None:
    """Install what is missing with apt-get, as root or through a sudo that asks nothing. Raises Unavailable."""
    packages = missing_packages()
    if not packages:
        return
    names = " ".join(packages)
    prefix = _root_prefix()
    if prefix is None or shutil.which("apt-get") is None:
        raise Unavailable(f"The whole test run needs these Debian packages, or the same by other means: {names}")
    print(f"Installing {names} ...", flush=True)
    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    for arguments in (["update"], ["install", "--no-install-recommends", *packages]):
        done = subprocess.run([*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise Unavailable(f"apt-get {arguments[0]} failed. Install these by hand: {names}")
    if still := missing_packages():
        raise Unavailable(f"Installed, and yet not found: {' '.join(still)}")


def _root_prefix() -> list[str] | None:
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    asks_nothing = sudo and subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0
    return [sudo, "-n"] if sudo and asks_nothing else None


# -------------------------------------------------------------------------------------------------------------- servers


@dataclass
class Server:
    """One server process on ``port``, with its data in ``folder``. ``url`` is how the desk reaches it."""

    name: str
    folder: str
    port: int
    url: str
    command: list[str]
    user: str | None = None
    pid: int = 0

    def start(self) -> None:
        """Start it and wait until it answers. Raises Unavailable with the end of its log."""
        log = Path(self.folder, f"{self.name}.log")
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which stop it in order
                **_as_user(self.user),
            )
        self.pid = process.pid
        _started[self.pid] = process
        deadline = time.monotonic() + START_SECONDS
        while not _ANSWERS[self.name](self):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"{self.name} did not start:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Send ``how`` (SIGINT: fast; SIGQUIT: PostgreSQL's immediate; SIGKILL) and wait until the process is gone."""
        if not self.is_running():
            return
        os.kill(self.pid, how)
        deadline = time.monotonic() + 20
        while self.is_running():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.02)

    def is_running(self) -> bool:
        """Say whether our process lives; a process of another command that got its id later is not ours."""
        if not self.pid:
            return False
        process = _started.get(self.pid)  # none: an earlier command started it
        if process is not None and process.poll() is not None:
            return False
        return str(self.port) in _command_line(self.pid)


_started: dict[int, subprocess.Popen[bytes]] = {}  # by this process


def _command_line(pid: int) -> str:
    """Return the command line of a process, empty where there is none."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
        except OSError:
            return ""
    return subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout


def postgres(folder: Path) -> Server:
    """Lay out a database cluster under ``folder`` and return its server, not yet started. Raises Unavailable."""
    user = _database_user()
    data = folder / "postgres"
    data.mkdir(mode=0o700)
    if user:
        shutil.chown(folder, user)
        shutil.chown(data, user)
    layout = [_need("initdb"), *f"-D {data} -U postgres -A trust -E UTF8 --locale=C --no-sync".split()]
    done = subprocess.run(layout, cwd=folder, capture_output=True, text=True, check=False, **_as_user(user))
    if done.returncode:
        raise Unavailable(f"initdb failed: {done.stderr[-2000:]}")
    port = free_port()
    listen = [f"port={port}", f"listen_addresses={HOST}", "unix_socket_directories="]
    command = [_need("postgres"), "-D", str(data)]
    for option in (*listen, "fsync=off", "max_connections=200"):
        command += ["-c", option]
    return Server("postgres", str(folder), port, f"postgres://postgres@{HOST}:{port}/postgres", command, user)


def redis(folder: Path) -> Server:
    """Return a Redis server that keeps nothing, not yet started. Raises Unavailable."""
    port = free_port()
    command = [_need("redis-server"), "--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "no"]
    return Server("redis", str(folder), port, f"redis://{HOST}:{port}/0", command)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _need(program: str) -> str:
    if found := find(program):
        return found
    raise Unavailable(f"{program} is not installed (Debian: apt-get install {PACKAGES[program]}).")


def _database_user() -> str | None:
    """PostgreSQL refuses to run as root; then it runs as the user its package made."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        raise Unavailable("PostgreSQL does not run as root, and there is no user named postgres.") from None


def _as_user(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _postgres_answers(server: Server) -> bool:
    import psycopg

    try:
        psycopg.connect(server.url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _redis_answers(server: Server) -> bool:
    try:
        with socket.create_connection((HOST, server.port), timeout=2) as link:
            link.sendall(b"PING\r\n")
            return link.recv(7) == b"+PONG\r\n"
    except OSError:
        return False


_ANSWERS: dict[str, Callable[[Server], bool]] = {"postgres": _postgres_answers, "redis": _redis_answers}


# ------------------------------------------------------------------------------------------------------------- commands


def start_all(folder: Path) -> list[Server]:
    """Start both servers with their data in ``folder``; when one fails, the other is stopped. Raises Unavailable."""
    servers: list[Server] = []
    try:
        for build in (postgres, redis):
            servers.append(build(folder))
            servers[-1].start()
    except BaseException:
        stop_all(servers)
        raise
    return servers


def stop_all(servers: Sequence[Server]) -> None:
    for server in servers:
        server.stop()


def variables(servers: Sequence[Server]) -> dict[str, str]:
    """Return the environment in which tests find the servers, and a browser where there is one."""
    names = {"postgres": "DATABASE_URL", "redis": "REDIS_URL"}
    found = {names[server.name]: server.url for server in servers}
    if chromium := find(CHROMIUMS[0]):
        found["CHROMIUM"] = chromium
    return found


@contextmanager
def running() -> Iterator[dict[str, str]]:
    """Both servers for as long as the block lasts; gives the variables to set. Raises Unavailable."""
    # Not under the project: PostgreSQL's user may not be allowed to enter the folder the project lies in.
    with scratch.folder("services", release=_stop_left) as folder:
        servers = start_all(folder)
        try:
            _write_down(servers, folder / NOTE)
            yield variables(servers)
        finally:
            stop_all(servers)


def _write_down(servers: Sequence[Server], note: Path) -> None:
    note.write_text(json.dumps([asdict(server) for server in servers]), encoding="utf-8")


def _written_down(note: Path) -> list[Server]:
    return [Server(**entry) for entry in json.loads(note.read_text(encoding="utf-8"))]


def _stop_left(folder: Path) -> None:
    """Stop servers whose ``run`` was killed."""
    if (folder / NOTE).exists():
        stop_all(_written_down(folder / NOTE))


def run(command: Sequence[str]) -> int:
    """Run ``command`` with both servers beside it and return its exit code. After Ctrl-C too both are stopped."""
    with running() as found:
        process = subprocess.Popen(command, env={**os.environ, **found})
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())  # and then both servers are stopped
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the command got it too, and ends in its own time
                continue


def start() -> int:
    if STATE.exists():
        print("Already started; `stop` first.", file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="countersign-services-kept-"))  # outlives this process
    servers = start_all(folder)
    STATE.parent.mkdir(exist_ok=True)
    _write_down(servers, STATE)
    for name, value in variables(servers).items():
        print(f"export {name}={value}")
    return 0


def stop() -> int:
    if not STATE.exists():
        return 0
    servers = _written_down(STATE)
    stop_all(servers)
    for server in servers:
        shutil.rmtree(server.folder, ignore_errors=True)
    STATE.unlink()
    return 0


def main(arguments: Sequence[str]) -> int:
    try:
        match list(arguments):
            case ["install"]:
                install()
                return 0
            case ["start"]:
                return start()
            case ["stop"]:
                return stop()
            case ["run", "--", *command] if command:
                return run(command)
    except Unavailable as reason:
        print(reason, file=sys.stderr)
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
