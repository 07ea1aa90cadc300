"""Processes of this machine that do parts of a search beside the one that asks.

A worker is a Python of its own that reads its work from a pipe. It has one thread to compute with,
imports nothing of the program that asked, and ends with it, even if that is killed.
"""

import atexit
import contextlib
import multiprocessing
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import joblib
import torch

from torchsparcs.parallel.engine import Engine, Function
from torchsparcs.training.deadline import go_on, stop_all

MOST = 8  # processes: more have too little to do
LOAD, LOOKS, BETWEEN = Path("/proc/loadavg"), 10, 0.01  # how often to look at it, and seconds
LOOK = 0.1  # seconds after which whoever waits looks at the clock
LENGTH = struct.Struct("<Q")  # of a message, before it


def free_cores() -> int:
    """How many processes may compute without being in the way of others, this one included.

    One, where this process is itself a worker of some pool.
    """
    if multiprocessing.current_process().name != "MainProcess":
        return 1
    return max(1, min(MOST, joblib.cpu_count() - round(_busy())))


def _busy() -> float:
    """How many cores others use: just now where Linux tells, else over the last minute."""
    if not LOAD.exists():
        return max(0.0, os.getloadavg()[0] - 1) if hasattr(os, "getloadavg") else 0.0
    running = []
    for _ in range(LOOKS):
        running.append(int(LOAD.read_text().split()[3].split("/")[0]) - 1)  # less this one
        time.sleep(BETWEEN)
    return max(0.0, sum(running) / LOOKS)


class WorkerLostError(RuntimeError):
    """A worker ended before its work was done."""


class Job(NamedTuple):
    """Work that several share: places are taken from ``todo``, what was made goes to ``done``."""

    function: bytes  # pickled
    items: Sequence[Any]
    todo: "queue.SimpleQueue[int]"
    done: "queue.SimpleQueue[tuple[int, Any, BaseException | None]]"

    def place(self) -> int | None:
        """The next one to do, None if there is none."""
        try:
            return self.todo.get_nowait()
        except queue.Empty:
            return None


class Worker:
    """A process, and the thread that asks it."""

    def __init__(self) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"import {__name__} as here; here.work()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the process that asks
        )
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._asking = threading.Lock()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def share(self, job: Job) -> None:
        """Take part in ``job`` as soon as the process is there."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Tell it that what it does is to end now, with what it has."""
        assert self._process.stdin is not None
        with self._asking, contextlib.suppress(OSError):  # who is lost will be noticed
            _send(self._process.stdin, b"")

    def end(self) -> None:
        self._process.kill()
        self._jobs.put(None)
        self._thread.join()
        with contextlib.suppress(BrokenPipeError):  # what it was not told any more
            self._process.communicate()

    def _serve(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(EOFError):  # the first job will meet it too
            _received(self._process.stdout)  # it has begun
        while (job := self._jobs.get()) is not None:
            while (place := job.place()) is not None:
                try:
                    job.done.put((place, self._answer(job.function, job.items[place]), None))
                except BaseException as error:  # for the thread that waits
                    job.done.put((place, None, error))
                    return

    def _answer(self, function: bytes, item: Any) -> Any:
        """What ``function`` makes of ``item`` over there; what it raises is raised here."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        message = pickle.dumps(item)
        try:
            with self._asking:
                _send(asked, function)
                _send(asked, message)
            is_done, outcome = pickle.loads(_received(answered))
        except (OSError, EOFError) as error:
            raise WorkerLostError(
                "A process that did part of the work was lost: killed, or out of memory. What was "
                "kept in a checkpoint can be gone on with; engine='local' needs less memory."
            ) from error
        if not is_done:
            raise outcome
        return outcome


class ProcessesEngine(Engine):
    """This process and others beside it, ``workers`` in all; :meth:`close` ends the others."""

    def __init__(self, workers: int):
        self.workers = workers
        self._others: list[Worker] = []

    def close(self) -> None:
        atexit.unregister(self.close)
        while self._others:
            self._others.pop().end()

    def map(self, function: Function, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        self._start()
        job = Job(pickle.dumps(function), items, queue.SimpleQueue(), queue.SimpleQueue())
        for place in range(len(items)):
            job.todo.put(place)
        for worker in self._others:
            worker.share(job)
        left = len(items)
        try:
            while left:
                if (mine := job.place()) is not None:
                    job.done.put((mine, function(items[mine]), None))
                while left and (job.todo.empty() or not job.done.empty()):
                    try:
                        place, outcome, error = job.done.get(timeout=LOOK)
                    except queue.Empty:
                        self._look_at_the_clock()
                        continue
                    if error is not None:
                        raise error
                    left -= 1
                    yield place, outcome
        finally:
            if left:  # nobody waits for what the others are at
                self.close()

    def _look_at_the_clock(self) -> None:
        """Tell the others once the time is over: of Ctrl-C they have not heard."""
        if self.deadline.is_over:
            for worker in self._others:
                worker.stop()

    def _start(self) -> None:
        if not self._others:
            atexit.register(self.close)
        while len(self._others) < self.workers - 1:
            self._others.append(Worker())


def work() -> None:
    """Answer from standard input to standard output until the former ends."""
    asked, answered = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    torch.set_num_threads(1)
    questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                message = _received(asked)
                if message:
                    questions.put(message)
                else:
                    stop_all()
        except EOFError:
            os._exit(0)  # nobody is there to answer

    threading.Thread(target=listen, daemon=True).start()
    _send(answered, b"")  # it has begun
    while True:
        function, item = questions.get(), questions.get()
        go_on()  # whose time is over is told again
        try:
            answer = pickle.dumps((True, pickle.loads(function)(pickle.loads(item))))
        except Exception as error:
            answer = _pickled(error)
        _send(answered, answer)


def _pickled(error: Exception) -> bytes:
    """The error as an answer; what cannot be sent is told."""
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)
    except Exception:
        told = RuntimeError("".join(traceback.format_exception(error)))
        return pickle.dumps((False, told))
    return answer


def _send(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(LENGTH.pack(len(message)))
    pipe.write(message)
    pipe.flush()


def _received(pipe: IO[bytes]) -> bytes:
    """The next message; an EOFError where there is none."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    (length,) = LENGTH.unpack(head)
    message = pipe.read(length)
    if len(message) < length:
        raise EOFError
    return message
