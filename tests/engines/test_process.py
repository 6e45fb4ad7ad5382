"""A worker process: started afresh, spoken to over a pipe, gone when it is told to."""

import os
import signal
import textwrap

import pytest

from fedtrip.engines.process import WorkerLost, WorkerProcess
from fedtrip.errors import UserError


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Start a service from a module that only `sys.path` leads to, not the working folder."""
    (tmp_path / "a_service.py").write_text(
        textwrap.dedent("""
        import os, signal, sys, time
        from fedtrip.engines.process import answer, request
        from fedtrip.errors import UserError

        class Parcel:
            def __init__(self, content): self.content = content

        def serve(connection, greeting):
            answer(connection, greeting.content if isinstance(greeting, Parcel) else greeting)
            while True:
                word = request(connection)
                if word == "refuse": raise UserError("no, thank you")
                if word == "fail": raise LookupError("nothing there")
                if word == "leave": sys.exit(3)
                if word == "die": os.kill(os.getpid(), signal.SIGKILL)
                if word == "threads":
                    import torch
                    word = (torch.get_num_threads(), os.environ["OMP_NUM_THREADS"])
                if word == "print": print("to nobody's harm")
                answer(connection, word)
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    started = []

    def start(greeting="hello"):
        process = WorkerProcess("a_service:serve", greeting)
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()


def test_messages_go_there_and_back_and_it_has_one_thread(worker):
    process = worker()
    assert process.receive() == "hello"
    for word in ("word", {"a": [1, 2]}, "print"):
        process.send(word)
        assert process.receive() == word
    process.send("threads")
    assert process.receive() == (1, "1")
    os.kill(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal sends to all processes
    process.send("still there")
    assert process.receive() == "still there"


def test_objects_of_a_module_that_only_sys_path_leads_to(worker):
    import a_service

    assert worker(a_service.Parcel("content")).receive() == "content"


def test_objects_of_a_class_without_a_module_travel_by_value(worker):
    class Local:
        def __eq__(self, other):
            return type(self).__name__ == type(other).__name__

    process = worker(Local())
    with pytest.raises(RuntimeError, match="pickle"):  # back they go by plain pickle: an answer is plain data
        process.receive()


def test_exceptions_are_raised_in_the_parent(worker):
    process = worker()
    process.receive()
    process.send("refuse")
    with pytest.raises(UserError, match=r"^no, thank you$"):
        process.receive()
    process = worker()
    process.receive()
    process.send("fail")
    with pytest.raises(RuntimeError, match="LookupError: nothing there"):
        process.receive()


@pytest.mark.parametrize(("word", "how"), [("leave", "exit code 3"), ("die", "killed by SIGKILL")])
def test_a_process_that_is_gone_is_told_apart(worker, word, how):
    process = worker()
    process.receive()
    process.send(word)
    with pytest.raises(WorkerLost, match=how):
        process.receive()
    with pytest.raises(WorkerLost, match=how):
        process.send("x" * 1_000_000)


def test_stopping_ends_it_also_while_it_starts(worker):
    process = worker()
    process.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
