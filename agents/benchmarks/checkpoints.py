"""``make bench-checkpoints``: DjangoSaver against the saver that LangGraph ships for the same database.

One JSON object a line: {"bench", "case", "unit", "ours", "peer", "ratio", "target", "ok"}. Both run the same agents in
one process, in turns. Figures are medians; a ratio is ours / peer, and of times the median of the rounds' own ratios.
Everything is written to a test database that is made and dropped here. Ratios travel, absolute figures do not.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from agents.benchmarks.database import test_database


def main() -> None:
    parser = argparse.ArgumentParser(description="Our checkpoints against those that LangGraph ships.")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--peer-turns", type=int, default=200, help="turns of the peer's conversation (400 take 1 GB)")
    chosen = parser.parse_args()
    with test_database():
        measure(only=chosen.only, peer_turns=chosen.peer_turns)


def measure(*, only: str, peer_turns: int) -> None:
    from django.db import connection

    from agents.benchmarks import cases
    from agents.benchmarks.savers import sides

    with tempfile.TemporaryDirectory() as folder, sides(Path(folder)) as (ours, peer, loop):
        bench = cases.Bench(ours, peer, loop, f"checkpoints on {connection.display_name}", only)
        cases.runs(bench)
        cases.puts(bench)
        cases.conversation(bench, peer_turns=peer_turns)


if __name__ == "__main__":
    main()
