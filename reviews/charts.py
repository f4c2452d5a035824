"""Small charts of the last hour, as plain numbers for a template: bars, an axis from nought, and one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from agents.status import Minute

LEFT, TOP, WIDTH, HEIGHT = 30.0, 10.0, 530.0, 110.0  # the plot, in a drawing of 570 by 146
GAP = 2.0
TICKS = (0, 15, 30, 45)  # minutes from the left that are named


@dataclass(frozen=True)
class Bar:
    """One rectangle; ``tone`` is a class of the style sheet."""

    x: str
    y: str
    width: str
    height: str
    tone: str


@dataclass(frozen=True)
class Mark:
    """A text on an axis and where it stands."""

    at: str
    text: str


@dataclass(frozen=True)
class Chart:
    """``sentence`` tells the whole of it to who does not see it."""

    bars: Sequence[Bar]
    lines: Sequence[Mark]
    times: Sequence[Mark]
    sentence: str


def throughput(minutes: Sequence[Minute]) -> Chart:
    """Draw the runs that ended in each minute, those that failed on top, in red."""
    top = _round_up(max((minute.ended for minute in minutes), default=0))
    bars: list[Bar] = []
    for at, minute in enumerate(minutes):
        good = minute.ended - minute.failed
        bars += _bar(at, len(minutes), low=0, high=good / top, tone="grey")
        bars += _bar(at, len(minutes), low=good / top, high=minute.ended / top, tone="red")
    ended, failed = sum(minute.ended for minute in minutes), sum(minute.failed for minute in minutes)
    most = max((minute.ended for minute in minutes), default=0)
    sentence = f"Runs ended in each minute of the last hour: {ended} in all, at most {most} a minute, {failed} failed."
    return Chart(bars, _lines(top, unit=""), _times(minutes), sentence)


def waiting(minutes: Sequence[Minute]) -> Chart:
    """Draw how long the runs that began in each minute had waited, the median of each."""
    known = [minute.wait for minute in minutes if minute.wait is not None]
    top = _round_up(max(known, default=0))
    bars: list[Bar] = []
    for at, minute in enumerate(minutes):
        bars += _bar(at, len(minutes), low=0, high=(minute.wait or 0) / top, tone="grey")
    sentence = "No run began in the last hour, so none waited."
    if known:
        sentence = f"Median waiting time of the runs begun in each minute: at most {max(known):.1f} s in the last hour."
    return Chart(bars, _lines(top, unit=" s"), _times(minutes), sentence)


def _bar(at: int, count: int, *, low: float, high: float, tone: str) -> list[Bar]:
    if high <= low:
        return []
    step = WIDTH / max(count, 1)
    height = (high - low) * HEIGHT
    y = TOP + HEIGHT - high * HEIGHT
    return [Bar(_number(LEFT + at * step), _number(y), _number(step - GAP), _number(height), tone)]


def _round_up(value: float) -> float:
    """Return the end of an axis that holds ``value``: 1, 2 or 5 of a power of ten, and two at the least."""
    if value <= 2:
        return 2
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _lines(top: float, *, unit: str) -> list[Mark]:
    return [Mark(_number(TOP + HEIGHT * (1 - part)), f"{top * part:g}{unit}") for part in (0, 0.5, 1)]


def _times(minutes: Sequence[Minute]) -> list[Mark]:
    step = WIDTH / max(len(minutes), 1)
    return [Mark(_number(LEFT + at * step), _clock(minutes[at].start)) for at in TICKS if at < len(minutes)]


def _clock(moment: datetime) -> str:
    return timezone.localtime(moment).strftime("%H:%M")


def _number(value: float) -> str:
    return f"{value:.1f}"
