"""Signals in this process: the first, the second, lost ones, and those at the end of the program."""

import signal
import sys
import time
from contextlib import ExitStack

import pytest
from live_fakes import beside

from bgsub import BackgroundSubtractor
from bgsub.jobs import Pipeline, interrupts
from bgsub.jobs.interrupts import Signals, finishing, name_of, terminations
from bgsub.video import FrameSource


class Ended(BaseException):
    """The process has ended, with an exit code."""


@pytest.fixture(autouse=True)
def ends(monkeypatch):
    """Let the end of the process raise `Ended`, and let any two signals count as two."""

    def end(code):
        raise Ended(code)

    monkeypatch.setattr(interrupts.os, "_exit", end)
    monkeypatch.setattr(interrupts, "_TOGETHER", -1.0)


@pytest.fixture
def signals():
    with terminations() as signals:
        yield signals


@pytest.mark.parametrize("number", interrupts.NUMBERS)
def test_second_signal_ends_the_process(signals, number, capfd):
    with pytest.raises(KeyboardInterrupt) as raised:
        signal.raise_signal(number)
    assert name_of(raised.value) == number.name
    assert signals.raised == number
    with pytest.raises(Ended, match=str(128 + number)):
        signal.raise_signal(number)
    by = "the user" if number == signal.SIGINT else number.name
    assert capfd.readouterr().err == f"\nbgsub: error: stopped by {by}\n"


def test_signals_while_outputs_are_finished(signals, caplog, monkeypatch):
    with finishing():
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Ended):
            signal.raise_signal(signal.SIGINT)
    assert caplog.messages == ["finishing the outputs"] * 2
    monkeypatch.setattr(interrupts, "_TOGETHER", 60.0)
    signal.raise_signal(signal.SIGINT)  # the same one, from a terminal and a parent process


def test_second_signal_of_a_run_is_raised_unless_outputs_are_finished(caplog):
    run = Pipeline(FrameSource("nothing"), BackgroundSubtractor())
    run._interrupt(signal.SIGINT)
    assert run._stopped_by == "SIGINT"
    with pytest.raises(KeyboardInterrupt) as raised:
        run._interrupt(signal.SIGTERM)
    assert name_of(raised.value) == "SIGTERM"
    run._finishing = True
    run._interrupt(signal.SIGTERM)
    assert (run._stopped_by, caplog.messages) == ("SIGINT", ["finishing the outputs"])


class Dropped:
    """Raises an error where Python drops it."""

    def __init__(self, error):
        self.error = error

    def __del__(self):
        raise self.error


def test_lost_interrupt_comes_again(monkeypatch):
    others = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: others.append(unraisable.exc_type))
    with terminations():
        Dropped(ValueError())
        with pytest.raises(KeyboardInterrupt) as raised:  # noqa: PT012
            Dropped(KeyboardInterrupt(signal.SIGTERM))
            time.sleep(30)
    assert name_of(raised.value) == "SIGTERM"
    assert others == [ValueError]


def test_exit_code_is_not_changed_by_signals(signals):
    signals.code = 3
    with pytest.raises(Ended, match="3"):
        signal.raise_signal(signal.SIGTERM)
    signals.leave()
    signal.raise_signal(signal.SIGTERM)  # ignored while Python exits
    signals.raised = signal.SIGINT
    with pytest.raises(Ended, match="3"):
        signals.leave()


def test_handlers_are_those_from_before():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as by nohup
    try:
        with terminations() as outer, terminations() as inner:
            assert inner is outer is signal.getsignal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert not isinstance(signal.getsignal(signal.SIGTERM), Signals)
    finally:
        signal.signal(signal.SIGINT, before)
    found = []
    with beside(lambda: found.append(ExitStack().enter_context(terminations()))):
        pass
    assert found == [None]  # in another thread
