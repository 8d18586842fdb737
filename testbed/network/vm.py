"""Any command in a virtual machine: user-mode Linux on this machine's own files.

Debian's package `user-mode-linux` is a kernel that runs as an ordinary process, with netem and the kernel datapath of Open vSwitch. Its
root is this machine's (hostfs), so there is no image to make, programs and file names are the same, and results land where they would
anyway. Its network is its own, with no way to this machine's. Its daemons write to memory file systems laid over /run and the directories
of Open vSwitch, and temporary files go to memory too; but /tmp is this machine's, because users have files there.

The command's output comes over serial lines, so that standard output stays clean. Ctrl-C is passed on, and the command ends as it
would here; a second one, or one before the command has started, kills the guest. It is the first process of a process namespace: when it
ends, for whatever reason, the kernel leaves none of its many processes alive. When the testbed dies, it is killed.

A run is measured there and analysed here: Java is slow in a guest, which has one processor and pays for every system call.
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

# Enough for the agents and captures of a hundred hosts; what is not used is not taken.
MOST_MEMORY_MB = 2048
# Where the guest finds the directory that it shares with us; the variable tells a command that it is in a guest.
SHARED = Path("/run/host")
_VARIABLE = "CASTBED_GUEST"
_LOADED = "openvswitch sch_netem sch_tbf sch_htb sch_ingress cls_bpf act_bpf act_gact veth"
_POLL_S = 0.05


def is_guest() -> bool:
    """Whether this process runs in a guest, and its results are analysed outside."""
    return _VARIABLE in os.environ


def wait_for_host() -> None:
    """In a guest: wait until nothing else runs on the machine."""
    while not (SHARED / "quiet").exists():
        time.sleep(_POLL_S)


def command(arguments: Namespace) -> int:
    """`./castbed vm WORDS...`: do what `./castbed WORDS...` does, in a guest."""
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
    """Stop with a sentence if there can be no guest."""
    if is_guest():
        raise CannotRun("this is a virtual machine already: leave vm out")
    if not doctor.is_root():
        raise CannotRun("a virtual machine works on the files of this one: run it with sudo")
    if not doctor.has_vm():
        raise CannotRun(f"there is no {doctor.VM_KERNEL}: install the package user-mode-linux, which Debian has")
    machine = doctor.examine(Path())
    if machine.netem and machine.kernel_datapath:
        errors.print(
            "this kernel has netem and the openvswitch module itself: the same works without vm, and faster", soft_wrap=True
        )


def run(words: Sequence[str], before_traffic: Callable[[], object] = lambda: None, *, reads: bool = False) -> int:
    """Run a command in a guest to its end; its exit status.

    `before_traffic` is what the guest waits for before it measures. A command that `reads` is given our standard input.
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
    """Tell the guest when it may measure. What goes wrong before that is for whoever needs the result; the guest may be gone, too."""
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
        # User-mode Linux takes a terminal or a pipe for a line, and nothing else; so it is pipes, and we copy.
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
        """Give the command what is typed or piped to us, from when it can read on."""
        while not self._has_started and self._process.poll() is None:
            time.sleep(_POLL_S)
        if self._interactive:
            tty.setraw(0)
        _copy(0, self._line, end=b"\x04")

    @property
    def _has_started(self) -> bool:
        return (self._shared / "started").exists()

    def wait(self) -> None:
        """Wait until it ends. The first interrupt is for the command inside, if it has started."""
        try:
            self._process.wait()
        except KeyboardInterrupt:
            if not self._has_started:
                raise
            os.write(self._line, b"\x03")
            self._process.wait()

    def kill(self) -> None:
        """End it, if it has not ended, and show the rest of what it said."""
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
            raise CannotRun(f"the virtual machine ended before the command did; {self._last_words()}") from None

    def _last_words(self) -> str:
        console = (self._shared / "console").read_text(errors="replace").splitlines()
        # What unshare says of the death of its child is a wrong account.
        said = [line.strip() for line in console if line.strip() and not line.startswith("unshare:")]
        return f"the last that it said: {said[-1]}" if said else "it said nothing"


def _place_for_memory(memory_mb: int) -> str:
    """A directory for the file that is the guest's memory, which must be executable; the file has no name there."""
    for place in ("/dev/shm", tempfile.gettempdir()):  # noqa: S108 - the file is unlinked as soon as it is made
        about = os.statvfs(place) if Path(place).is_dir() else None
        if about and not about.f_flag & os.ST_NOEXEC and about.f_bavail * about.f_frsize > memory_mb << 20:
            return place
    raise CannotRun(f"there is no room for the {memory_mb} MB of a virtual machine in /dev/shm or {tempfile.gettempdir()}")


def _script(words: Sequence[str], shared: Path, *, interactive: bool) -> str:
    """What the guest does from its start to its end."""
    kept = {name: value for name, value in os.environ.items() if name.isidentifier()}
    environment = kept | {"TMPDIR": "/run/tmp", _VARIABLE: "1"}
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())
    command = shlex.join([sys.executable, "-m", "testbed", *words])
    columns, lines = shutil.get_terminal_size()
    size = f"rows {lines} cols {columns}"
    # The end of a session hangs up its terminal, with what others still have to write to it; so only who sits at it writes there.
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
            # Whoever read it is gone: the guest, or what our output was piped into.
            pass

    thread = threading.Thread(target=copy, daemon=True)
    thread.start()
    return thread


@contextmanager
def _terminal_restored() -> Iterator[None]:
    """Leave the terminal as it was, whatever is done to it."""
    before = termios.tcgetattr(0) if sys.stdin.isatty() else None
    try:
        yield
    finally:
        if before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
