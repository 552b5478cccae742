"""Fixtures: what a test starts is ended and checked by them, whatever became of the test."""

import os

import pytest

from harness import proc
from harness.backend import Backend
from harness.gate import Gate, static_model
from harness.sim import Sim, SimServer


def pytest_report_header():
    return [f"wakegate: {proc.WAKEGATE} {proc.SANITIZER or 'plain'}", f"modelsim: {proc.MODELSIM}"]


@pytest.fixture
def gate(tmp_path):
    """gate(models, **config) starts a Wakegate; several may run."""
    started = []

    def make(models, **config):
        folder = tmp_path / f"gate{len(started)}"
        folder.mkdir()
        one = Gate(folder, models, **config)
        started.append(one)
        return one

    yield make
    errors = []
    for one in started:
        try:
            one.stop()
        except AssertionError as error:
            errors.append(str(error))
    assert not errors, "\n".join(errors)


@pytest.fixture
def sim(tmp_path):
    """sim(**options) starts a modelsim of the test's own; sim.at(port) speaks to one that Wakegate started."""
    started = []

    def make(**options):
        one = SimServer(tmp_path, **options)
        started.append(one)
        return one

    make.at = Sim
    yield make
    for one in started:
        one.stop()


@pytest.fixture
def backend():
    """backend(handler) starts a scripted backend."""
    started = []

    def make(handler=None, **options):
        one = Backend(handler, **options)
        started.append(one)
        return one

    yield make
    for one in started:
        one.stop()


@pytest.fixture
def front(gate, backend):
    """A warm model behind a backend that remembers what it got."""
    b = backend()
    g = gate([static_model("m", [b])])
    g.warm()
    b.requests.clear()
    return g, b


@pytest.fixture
def real_part():
    """real_part(NAME) is the path in that variable. Where there is none the test says so; under CI it must be there."""

    def find(name):
        path = os.environ.get(name, "")
        if not path or not os.path.exists(path):
            assert os.environ.get("CI") != "true", f"{name} must name a real part under CI"
            pytest.skip(f"{name} names no real part")
        return path

    return find
