"""Processes of this machine that call functions, as an executor that needs nothing of the program that starts them.

A process of `multiprocessing` runs the program's main file again, so that file needs a guard and must exist. These
start as an interpreter of their own, with the same module path, so that a script without a guard, standard input, an
interactive session and a notebook can all use them.
"""

import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from queue import Empty, SimpleQueue

_LENGTH = struct.Struct("<Q")  # before every message of a pipe


class LocalProcesses(Executor):
    """Calls functions in at most `workers` processes, each started when there is work for it and used again after it.

    Functions, arguments and results are pickled by name, so they must lie in modules, not in the program's main file.
    A process that is killed breaks the call that it was working on (BrokenExecutor) and no other. All processes end
    when the one that started them does, whatever ends it.

    >>> with LocalProcesses(2) as processes:  # starts none, because there is no work
    ...     pass
    """

    def __init__(self, workers: int):
        self._tasks: SimpleQueue = SimpleQueue()
        self._processes: set[subprocess.Popen] = set()
        self._closed = self._killed = False
        self._threads = [threading.Thread(target=self._attend, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable, /, *arguments, **named) -> Future:
        """Call function(*arguments, **named) in a process. Raises: RuntimeError after a shutdown."""
        if self._closed:
            raise RuntimeError("this executor was shut down and takes no more calls.")
        future: Future = Future()
        self._tasks.put((future, (function, arguments, named)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes: when all calls are done, or at once with cancel_futures."""
        self._closed = True
        if cancel_futures:
            self._killed = True
            with contextlib.suppress(Empty):
                while True:
                    if task := self._tasks.get_nowait():
                        task[0].cancel()
            for process in list(self._processes):
                process.kill()
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _attend(self) -> None:
        """In a thread of its own for each process: give it one call after another."""
        process = None
        while (task := self._tasks.get()) is not None:
            future, call = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                content = pickle.dumps(call)
                if process is None:
                    process = _start()
                    self._processes.add(process)
                    if self._killed:  # it started while the others were ended
                        process.kill()
                _send(process.stdin, content)
                error, value = pickle.loads(_receive(process.stdout))
            except (EOFError, OSError) as e:
                status = process.wait() if process else e
                future.set_exception(BrokenExecutor(f"a process of this machine ended early (status {status})"))
                self._processes.discard(process)
                process = None
            except Exception as e:  # what cannot be pickled
                future.set_exception(e)
            else:
                future.set_exception(error) if error else future.set_result(value)
        if process is not None:
            process.stdin.close()
            process.wait()


def serve() -> None:
    """In a process: answer one call after another, and end when the process that started this one is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that started this one decides what an interrupt means
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a function prints must not come between the answers
    calls: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read_calls, args=(calls,), daemon=True).start()
    while True:
        try:
            function, arguments, named = pickle.loads(calls.get())
            answer = pickle.dumps((None, function(*arguments, **named)))
        except Exception as e:
            answer = _as_answer(e)
        _send(answers, answer)


def _read_calls(calls: SimpleQueue) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            calls.put(_receive(sys.stdin.buffer))
    os._exit(1)  # whoever asked is gone; a run loses at most the seconds since its last saved state


def _as_answer(error: Exception) -> bytes:
    try:
        answer = pickle.dumps((error, None))
        pickle.loads(answer)  # some errors can be written and not read
        return answer
    except Exception:
        return pickle.dumps((RuntimeError(f"{type(error).__name__}: {error}"), None))


def _start() -> subprocess.Popen:
    """A process that imports what this one can import."""
    program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _send(pipe, content: bytes) -> None:
    pipe.write(_LENGTH.pack(len(content)) + content)
    pipe.flush()


def _receive(pipe) -> bytes:
    (size,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    return _exactly(pipe, size)


def _exactly(pipe, size: int) -> bytes:
    content = pipe.read(size)
    if len(content) < size:
        raise EOFError
    return content
