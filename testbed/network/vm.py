"""Runs any command in a virtual machine: user-mode Linux on this machine's own files.

Debian's package `user-mode-linux` is a kernel that runs as an ordinary process, with netem and the kernel datapath of Open vSwitch. The
guest's root file system is this machine's (hostfs): no image is needed, programs and file names are the same, and results are in the usual
place. The guest has a network of its own, without a route to this machine's. In the guest, /run, the directories of Open vSwitch and the
directory for temporary files are in memory; but /tmp is this machine's, because users have files there.

The output of the command comes over serial lines, apart from the guest's console. Ctrl-C is passed on, and the command ends as it would
without a guest; a second Ctrl-C, or one before the command has started, kills the guest. The guest is the first process of a process
namespace: when it ends, for whatever reason, the kernel kills all its processes. When the testbed dies, the guest is killed.

A run is measured in the guest and analysed outside: Java is slow in a guest, which has one processor and slow system calls.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import termios
import threading
import time
import tty
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from testbed.errors import CannotRun
from testbed.network import doctor, record, shell
from testbed.terminal import errors

# Enough for the agents and captures of a hundred hosts; the guest takes only what it uses.
MOST_MEMORY_MB = 2048
# The path in the guest of the directory that it shares with us; the variable tells a command that it is in a guest.
SHARED = Path("/run/host")
_VARIABLE = "CASTBED_GUEST"
_LOADED = "openvswitch sch_netem sch_tbf sch_htb sch_ingress cls_bpf act_bpf act_gact veth"
_POLL_S = 0.05


def is_guest() -> bool:
    """Whether this process runs in a guest. Results of a guest are analysed outside."""
    return _VARIABLE in os.environ


def wait_for_host() -> None:
    """In a guest: wait until the process outside allows traffic, as nothing else runs on the machine then."""
    while not (SHARED / "quiet").exists():
        time.sleep(_POLL_S)


def command(arguments: Namespace) -> int:
    """Do in a guest what `./castbed WORDS...` does, for `./castbed vm WORDS...`."""
    words = list(arguments.words)
    inner = arguments.parse(words)
    if inner.verb == "vm":
        raise CannotRun("a virtual machine in a virtual machine: leave one vm out")
    _require()
    if inner.verb in {"run", "demo", "replay", "up"}:
        inner.vm_words = words
        status: int = inner.call(inner)
        return status
    return run(words, reads=True)


def _require() -> None:
    """Raise an error if this machine cannot start a guest."""
    if is_guest():
        raise CannotRun("this is a virtual machine already: leave vm out")
    if not doctor.is_root():
        raise CannotRun("a virtual machine needs root, as it uses the files of this machine: run it with sudo")
    if not doctor.has_vm():
        raise CannotRun(f"there is no {doctor.VM_KERNEL}: install the package user-mode-linux, which Debian has")
    machine = doctor.examine(Path())
    if machine.netem and machine.kernel_datapath:
        errors.print(
            "this kernel has netem and the openvswitch module itself: the same works without vm, and faster", soft_wrap=True
        )


def run(words: Sequence[str], before_traffic: Callable[[], object] = lambda: None, *, reads: bool = False) -> int:
    """Run a command in a guest to its end. Returns its exit status.

    The guest starts to measure when `before_traffic` has returned. A command that `reads` gets our standard input.
    """
    with record.claim() as shared, _terminal_restored():
        guest = _Guest(words, shared, reads=reads)
        try:
            threading.Thread(target=_let_traffic, args=(before_traffic, shared), daemon=True).start()
            guest.wait()
        finally:
            with record.uninterrupted():
                guest.kill()
        return guest.status()


def _let_traffic(before_traffic: Callable[[], object], shared: Path) -> None:
    """Tell the guest when it may measure. An error in `before_traffic` is raised elsewhere, and the guest may have ended."""
    with suppress(Exception):
        before_traffic()
    with suppress(FileNotFoundError):
        (shared / "quiet").touch()


class _Guest:
    """A running guest, its serial lines and the directory that it shares with us."""

    def __init__(self, words: Sequence[str], shared: Path, *, reads: bool) -> None:
        self._shared = shared
        self._interactive = reads and sys.stdin.isatty() and sys.stdout.isatty()
        script = shared / "init"
        script.write_text(_script(words, shared, interactive=self._interactive))
        script.chmod(0o700)
        memory_mb = min(MOST_MEMORY_MB, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**21)
        # User-mode Linux accepts only a terminal or a pipe as a serial line; so we give it pipes and copy.
        to_guest, self._line = os.pipe()
        output, from_terminal = os.pipe()
        from_output = os.dup(from_terminal)
        messages, from_messages = os.pipe()
        theirs = to_guest, from_terminal, from_messages, from_output
        errors.print(f"virtual machine: starting Linux with {memory_mb} MB", soft_wrap=True)
        with (shared / "console").open("wb") as console:
            self._process = subprocess.Popen(
                [
                    *(*shell.WITH_US, "unshare", "--pid", "--fork", "--kill-child"),
                    *(doctor.VM_KERNEL, f"mem={memory_mb}M", "quiet"),
                    *("rootfstype=hostfs", "hostfs=/", "rw", f"init={script}", f"uml_dir={shared}/", "umid=guest"),
                    *("con=null", "con0=null,fd:1", f"ssl0=fd:{to_guest},fd:{from_terminal}"),
                    *(f"ssl1=null,fd:{from_messages}", f"ssl2=null,fd:{from_output}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                pass_fds=theirs,
                start_new_session=True,
                env={"PATH": os.environ["PATH"], "TMPDIR": _place_for_memory(memory_mb)},
            )
        for descriptor in theirs:
            os.close(descriptor)
        self._copies = [_copy(output, 1), _copy(messages, 2)]
        if reads:
            threading.Thread(target=self._copy_input, daemon=True).start()

    def _copy_input(self) -> None:
        """Copy our standard input to the command, once it has started."""
        while not self._has_started and self._process.poll() is None:
            time.sleep(_POLL_S)
        if self._interactive:
            tty.setraw(0)
        _copy(0, self._line, end=b"\x04")

    @property
    def _has_started(self) -> bool:
        return (self._shared / "started").exists()

    def wait(self) -> None:
        """Wait until the guest ends. The first interrupt goes to the command inside, if that has started."""
        try:
            self._process.wait()
        except KeyboardInterrupt:
            if not self._has_started:
                raise
            os.write(self._line, b"\x03")
            self._process.wait()

    def kill(self) -> None:
        """End the guest, if it has not ended, and show the rest of its output."""
        self._process.kill()
        self._process.wait()
        for copy in self._copies:
            copy.join()
        os.close(self._line)

    def status(self) -> int:
        """The exit status of the command."""
        try:
            return int((self._shared / "status").read_text())
        except (FileNotFoundError, ValueError):
            raise CannotRun(f"the virtual machine ended before the command did; {self._last_line()}") from None

    def _last_line(self) -> str:
        """The last line on the guest's console."""
        console = (self._shared / "console").read_text(errors="replace").splitlines()
        # The message of unshare about the end of its child is wrong.
        said = [line.strip() for line in console if line.strip() and not line.startswith("unshare:")]
        return f"its last line was: {said[-1]}" if said else "it printed nothing"


def _place_for_memory(memory_mb: int) -> str:
    """A directory for the guest's memory, which is an unlinked file that must be executable."""
    for place in ("/dev/shm", tempfile.gettempdir()):  # noqa: S108 - the file is unlinked as soon as it is made
        about = os.statvfs(place) if Path(place).is_dir() else None
        if about and not about.f_flag & os.ST_NOEXEC and about.f_bavail * about.f_frsize > memory_mb << 20:
            return place
    raise CannotRun(
        f"a virtual machine needs {memory_mb} MB in /dev/shm or {tempfile.gettempdir()}, and neither has them: free some space"
    )


def _script(words: Sequence[str], shared: Path, *, interactive: bool) -> str:
    """The script that is the guest's init process: it starts Open vSwitch, runs the command and ends the guest."""
    kept = {name: value for name, value in os.environ.items() if name.isidentifier()}
    environment = kept | {"TMPDIR": "/run/tmp", _VARIABLE: "1"}
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
    command = shlex.join([sys.executable, "-m", "testbed", *words])
    columns, lines = shutil.get_terminal_size()
    size = f"rows {lines} cols {columns}"
    # When a session ends, its terminal hangs up and loses output that is still to be written. So only an interactive command writes to it.
    terminal = "/dev/ttyS0" if interactive else ""
    output = (terminal or "/dev/ttyS2") if sys.stdout.isatty() else "/run/output"
    messages = (terminal or "/dev/ttyS1") if sys.stderr.isatty() else "/run/errors"
    return f"""#!/bin/sh
{exports}
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
for place in /run /etc/openvswitch /var/lib/openvswitch /var/log/openvswitch; do
    mount -t tmpfs tmpfs $place
done
mkdir -p {SHARED} /run/tmp /run/netns /run/openvswitch /run/kernel/lib
mount -t hostfs none {SHARED} -o {shlex.quote(str(shared))}
exec 7<>/dev/ttyS0 8<>/dev/ttyS1 9<>/dev/ttyS2
stty {size} {"" if interactive else "-echo"} <&7
stty {size} -echo -opost <&8
stty {size} -echo -opost <&9
echo "virtual machine: Linux $(uname -r), starting Open vSwitch" >/dev/ttyS1
ln -s {doctor.VM_MODULES} /run/kernel/lib/modules
for module in {_LOADED}; do
    modprobe -d /run/kernel $module
done
ip link set lo up
ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server /etc/openvswitch/conf.db --remote=punix:/run/openvswitch/db.sock --pidfile --detach --log-file
ovs-vsctl --no-wait init
ovs-vswitchd --pidfile --detach --log-file
mkfifo /run/output /run/errors
cat /run/output >/dev/ttyS2 &
cat /run/errors >/dev/ttyS1 &
cd {shlex.quote(str(Path.cwd()))}
touch {SHARED}/started
setsid --ctty --wait {command} </dev/ttyS0 >{output} 2>{messages}
echo $? >/run/status
test {output} = /run/output || : >/run/output
test {messages} = /run/errors || : >/run/errors
wait
cp /run/status {SHARED}/status
echo o >/proc/sysrq-trigger
sleep 60
"""


def _copy(source: int, target: int, end: bytes = b"") -> threading.Thread:
    """Copy from one descriptor to another until the end, in the background."""

    def copy() -> None:
        try:
            while data := os.read(source, 1 << 16):
                while data:
                    data = data[os.write(target, data) :]
            os.write(target, end)
        except OSError:
            # The reader has ended: the guest, or the program that our output is piped into.
            pass

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


@contextmanager
def _terminal_restored() -> Iterator[None]:
    """Restore the terminal's settings when the body ends."""
    before = termios.tcgetattr(0) if sys.stdin.isatty() else None
    try:
        yield
    finally:
        if before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
