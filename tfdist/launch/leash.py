"""Run one command and end it, with everything it started, as soon as standard input closes.

    python leash.py COMMAND [ARGUMENT …]

Whoever starts this holds the other end of standard input and its own session for it (`start_new_session`, or
sshd). However the holder ends, even by SIGKILL or a lost connection, the kernel closes that pipe, and
everything in the session is killed. The exit status is the command's own, death by signal included. The
command reads `/dev/null`.

Why a process that stays, and not PR_SET_PDEATHSIG and exec: that signal reaches only the command and not its
children, is lost on exec of a privileged program, fires when the starting *thread* ends, and exists on Linux
only.

What is not guaranteed: a process that makes a session of its own (a daemon) is out of reach. Outside Linux so
is one that makes a process group of its own (such as `timeout`).

Only the standard library, and little of it: this runs by its path with `python -I -S` and is up in 20 ms.
"""

import contextlib
import errno
import os
import signal
import sys
import threading


def live_groups(session: int) -> set[int]:
    """Give the process groups in a session that have a process which has not ended.

    Args:
        session: The session's id: the process id of its leader. It is not reused while the session has
        members.

    Returns:
        The ids of the groups. Outside Linux only the leader's own group is known.
    """
    if not os.path.exists("/proc/self/stat"):
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return set()
        except PermissionError:  # macOS, when only zombies are left
            return set()
        return {session}
    groups = set()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # pid (name) state parent group session …; the name may hold spaces and brackets.
                state, _, group, member_of = file.read().rpartition(b")")[2].split()[:4]
        except OSError:  # it ended while we looked
            continue
        if int(member_of) == session and state not in (b"Z", b"X"):
            groups.add(int(group))
    return groups


def signal_session(session: int, number: int) -> None:
    """Send a signal to every process group in a session; the leader's own group comes last."""
    for group in sorted(live_groups(session), key=lambda group: group == session):
        _send(group, number)


def _send(group: int, number: int) -> None:
    # It has ended meanwhile; of a group of zombies macOS says PermissionError.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_all_when_input_closes() -> None:
    while os.read(0, 4096):
        pass
    own = os.getpid()
    for _ in range(10):  # again, for what was forked while we looked
        for group in live_groups(own) - {own}:
            _send(group, signal.SIGKILL)
    os.killpg(own, signal.SIGKILL)


def main(command: list[str]) -> int:
    """Run the command to its end and return its exit code; does not return when it died by a signal."""
    if os.getpgrp() != os.getpid():
        os.setsid()
    # Signals are sent to the whole group: the command gets them itself, and this process must outlive it.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Thread(target=_kill_all_when_input_closes, daemon=True).start()
    try:
        child = os.posix_spawnp(
            command[0],
            command,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setsigmask=(),
            # Python ignores the first two; the others may come ignored from `nohup` or a shell's `&`.
            setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM),
        )
    except OSError as error:
        print(f"cannot run {command[0]!r}: {error.strerror}", file=sys.stderr)
        if error.errno in (
            errno.ENOEXEC,
            errno.ENOENT,
        ):  # what is there cannot be run, or not by what it names
            fix = "its first line must name a program that is installed, such as: #!/usr/bin/env python3"
            print(f"Fix: {fix}", file=sys.stderr, flush=True)
        return 127 if isinstance(error, FileNotFoundError) else 126
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        _die_by(-code)
    return code


def _die_by(number: int) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has dumped its own core, where wanted
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: leash.py COMMAND [ARGUMENT ...]")
    os._exit(main(sys.argv[1:]))
