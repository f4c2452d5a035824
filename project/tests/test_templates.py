"""What people read and change in the browser's languages stays readable: no line is longer than 140 characters.

120 is meant; the rest is room for one address or condition that cannot be parted.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LONGEST = 140
OURS = ("templates/**/*.html", "static/css/*.css", "static/js/*.js")  # static/vendor is as others wrote it


def long_lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    name = path.relative_to(ROOT)
    return [f"{name}:{number}: {len(line)}" for number, line in enumerate(lines, 1) if len(line) > LONGEST]


def test_no_line_of_a_template_a_style_sheet_or_a_script_is_too_long() -> None:
    files = [path for pattern in OURS for path in sorted(ROOT.glob(pattern))]
    assert len(files) > 50
    assert [line for path in files for line in long_lines(path)] == []
