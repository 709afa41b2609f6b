"""What one task of a test does: `child.py '{"worker:1": "exit 3"}' DEFAULT`. No TensorFlow."""

import json
import os
import signal
import subprocess
import sys
import time


def serve() -> None:
    """Run until ended from outside."""
    print("serving")
    while True:
        signal.pause()


def finish(seconds: str = "0") -> None:
    time.sleep(float(seconds))
    print("finished")


def exit_with(code: str, seconds: str = "0") -> None:
    time.sleep(float(seconds))
    print("about to fail", file=sys.stderr)
    sys.exit(int(code))


def die(name: str) -> None:
    print("about to die")
    os.kill(os.getpid(), signal.Signals[name])


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, lambda *_: print("no, thanks"))
    serve()


def save_on_sigterm() -> None:
    def save(number: int, frame: object) -> None:
        print("saving")
        time.sleep(0.3)
        print("saved")
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    serve()


def leave_grandchildren(code: str, how: str = "plain") -> None:
    """End while children run on that ignore SIGTERM; `group`: in a process group of their own."""
    script = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    for _ in range(2):
        grandchild = subprocess.Popen(
            [sys.executable, "-c", script],
            process_group=0 if how == "group" else None,
            stdout=subprocess.PIPE,
        )
        assert grandchild.stdout is not None
        grandchild.stdout.readline()
    print("left two")
    sys.exit(int(code))


def wrap_in_shell() -> None:
    """Be a shell that SIGTERM ends at once, around a child that needs time to save."""
    child = f"{sys.executable} {__file__} '{{}}' save_on_sigterm"
    os.execvp("bash", ["bash", "-c", f"{child}; echo never"])


def flood(lines: str, code: str = "0") -> None:
    for number in range(int(lines)):
        print(f"line {number} " + "x" * 80)
    print("last words")
    os._exit(int(code))


def flood_for_ever(how: str = "") -> None:
    if how == "ignore_sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        print("x" * 200)


def chat_for_ever() -> None:
    while True:
        print("a word")
        time.sleep(0.01)


def close_output(code: str) -> None:
    print("closing")
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    time.sleep(0.3)
    os._exit(int(code))


def stop_itself() -> None:
    def wake(number: int, frame: object) -> None:
        print("woke up")
        sys.exit(0)

    signal.signal(signal.SIGTERM, wake)
    print("stopping")
    os.kill(os.getpid(), signal.SIGSTOP)


def print_bytes(text: str) -> None:
    os.write(1, text.encode().decode("unicode_escape").encode("latin-1"))


def print_environment(*names: str) -> None:
    for name in names:
        print(f"{name}={os.environ.get(name)}")
    print(f"input={sys.stdin.read()!r}")


def own_task() -> str:
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    return f"{task['type']}:{task['index']}"


if __name__ == "__main__":
    actions = json.loads(sys.argv[1])
    name, *words = actions.get(own_task(), sys.argv[2]).split(" ")
    globals()[name](*words)
