#!/usr/bin/env bash
# Prepares a machine for Castbed: system packages, a virtual environment in .venv, Open vSwitch running.
#
#   ./setup.sh               set up; can be run again at any time, and leaves alone what is up to date
#   ./setup.sh --simulator   only the virtual environment, without root: no Mininet, Open vSwitch and Ryu, so only --on simulator
#   ./setup.sh --check       exit with status 0 if the virtual environment is up to date, for Mininet or for the simulator, else 1
#
# Runs as root, or as a user with sudo, with or without an init system. Asks nothing, except that sudo may ask for a password.
# A user who cannot become root gets what --simulator gives, and a message that says so.
set -euo pipefail

root=$(dirname "$(readlink --canonicalize "${BASH_SOURCE[0]}")")
venv=$root/.venv
lock=$root/requirements.lock
log=$venv/setup.log
stamp=$venv/castbed-stamp
python=/usr/bin/python3
java=/usr/bin/java
engine=mininet
os_release=${CASTBED_OS_RELEASE:-/etc/os-release}

# Mininet calls programs of procps and psmisc, but does not depend on these packages; pip needs ca-certificates; tests need tshark.
packages=(
    mininet openvswitch-switch tcpdump ethtool iproute2 iputils-ping
    net-tools procps psmisc kmod python3-venv ca-certificates tshark
)

say() { echo "castbed set-up: $*"; }

stop() {
    say "$*" >&2
    exit 1
}

# The log has the output of the current step only, so that a failure is explained by that step.
begin() {
    step=$1
    say "$step"
    : >"$log"
}

# The lock's descriptor is closed for the command: a daemon that it starts would hold the lock for ever.
logged() { "$@" </dev/null >>"$log" 2>&1 9<&-; }

as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        sudo "$@"
    fi
}

is_root() { ((EUID == 0)); }

need_root() {
    is_root && return
    local without="or ./setup.sh --simulator, which needs no root"
    command -v sudo >/dev/null || stop "root rights are needed. Run ./setup.sh as root, install sudo, $without."
    sudo --validate || stop "sudo refused. Run ./setup.sh as root, as a user who may use sudo, $without."
}

# With a terminal, sudo may ask for a password; without one, sudo must work without a password.
can_be_root() { is_root || { command -v sudo >/dev/null && { [[ -t 0 ]] || sudo --non-interactive true 2>/dev/null; }; }; }

# Whether a user who is not root has chosen the simulator before, or has no choice.
only_simulates() { ! is_root && { grep --quiet --line-regexp "engine simulator" "$stamp" 2>/dev/null || ! can_be_root; }; }

log_says() { grep --quiet --extended-regexp --ignore-case "$1" "$log"; }

# Ends with a sentence for the cause that the log shows.
explain_failure() {
    local again="then run ./setup.sh again. Details: $log"
    if log_says 'no space left on device|not have enough free space'; then
        stop "$step: the disk is full. Free some space, $again"
    elif log_says 'could not get lock|unable to acquire the dpkg'; then
        stop "$step: another program is installing packages. Wait until it has finished, $again"
    elif log_says 'dpkg was interrupted'; then
        stop "$step: an earlier installation was interrupted. Run 'dpkg --configure -a' as root, $again"
    elif log_says 'name resolution|could not resolve|resolving|network is unreachable|could not connect|new connection|timed out'; then
        stop "$step: the package server cannot be reached. Check the network and its proxy settings, $again"
    elif log_says 'unable to locate package|has no installation candidate'; then
        stop "$step: the system's package sources lack a package. Enable 'main' (on Ubuntu also 'universe'), $again"
    elif log_says 'no matching distribution found'; then
        stop "$step: a pinned package does not exist for $("$python" --version) on $(uname --machine). Details: $log"
    fi
    stop "$step: failed. The reason is at the end of $log; correct it, then run ./setup.sh again."
}

check_system() {
    local ID='' VERSION_ID='' PRETTY_NAME=''
    # shellcheck source=/dev/null
    [[ -r $os_release ]] && source "$os_release"
    case "$ID $VERSION_ID" in
        'debian 12' | 'debian 13' | 'ubuntu 24.04') ;;
        *)
            say "this is ${PRETTY_NAME:-an unknown system}; use Debian 12, Debian 13 or Ubuntu 24.04 (a virtual machine or container will do), or ./setup.sh --simulator." >&2
            exit 2
            ;;
    esac
}

# One set-up at a time per folder; the folder itself is the lock, so nothing is left behind.
take_turn() {
    exec 9<"$root"
    flock --nonblock 9 && return
    say "waiting for another set-up of this folder"
    flock 9
}

# What the virtual environment was made from. After a move of the folder, or with a new system Python, a new one is needed.
made_from() { echo "$root $(readlink --canonicalize "$python")"; }

stamp_text() {
    made_from
    echo "engine ${1:-$engine}"
    cat "$root/setup.sh" "$lock" | sha256sum
    # The archive of Spark's classes fits one version of Java; PySpark's version is in the lock file.
    stat --dereference --format='java %s %Y' "$java" 2>/dev/null || true
}

is_made_for() { [[ -x $venv/bin/python && -r $stamp && $(stamp_text "$1") == "$(<"$stamp")" ]]; }

# A virtual environment for Mininet has everything that the simulator needs.
is_up_to_date() { is_made_for mininet || { [[ $engine == simulator ]] && is_made_for simulator; }; }

is_installed() { [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

missing_packages() {
    local package
    for package in "${packages[@]}"; do
        is_installed "$package" || echo "$package"
    done
    has_java || echo default-jre-headless
}

# PySpark 4 needs Java 17 or newer; the first number in quotes is 17 for "17.0.2" and 1 for the old "1.8.0".
has_java() {
    [[ $("$java" -version 2>&1) =~ version\ \"([0-9]+) ]] && ((BASH_REMATCH[1] >= 17))
}

apt_get() {
    # Do not restart running services, keep changed settings, and wait for a busy package system.
    logged as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get --quiet --yes \
        --option DPkg::Lock::Timeout=120 --option Dpkg::Options::=--force-confdef --option Dpkg::Options::=--force-confold "$@"
}

install_packages() {
    local missing
    mapfile -t missing < <(missing_packages)
    ((${#missing[@]})) || return 0
    need_root
    begin "system packages (${missing[*]})"
    # A package source that cannot be refreshed is no error, as long as the installation succeeds.
    apt_get update || true
    # Castbed needs none of the recommended packages.
    apt_get install --no-install-recommends "${missing[@]}" || explain_failure
    has_java || stop "$java is still older than 17. Choose a newer Java with 'update-alternatives --config java', then run ./setup.sh again."
}

kernel_has() { [[ -d /sys/module/$1 ]] || modprobe --dry-run --quiet "$1"; }

# For ./castbed vm: needed only if the kernel lacks a module, and some distributions do not have the package.
wants_virtual_machine() {
    ! { kernel_has sch_netem && kernel_has openvswitch; } && ! is_installed user-mode-linux && apt-cache show user-mode-linux &>/dev/null
}

install_virtual_machine() {
    wants_virtual_machine || return 0
    need_root
    begin "virtual machine (user-mode-linux): this kernel lacks netem or the openvswitch module"
    apt_get install --no-install-recommends user-mode-linux \
        || say "user-mode-linux cannot be installed, so ./castbed vm will not work; everything else will. Details: $log" >&2
}

# Makes .venv a writable folder, and empties it unless its contents can be reused.
prepare_venv_folder() {
    [[ -w $root ]] || stop "$root belongs to $(stat --format=%U "$root"): run ./setup.sh as that user or as root."
    if [[ -e $venv ]] && ((EUID != 0)) && [[ -n $(find "$venv" ! -user "$EUID" -print -quit) ]]; then
        need_root
        sudo chown --recursive "$EUID" "$venv"
    fi
    # Without a stamp the last set-up was interrupted, and an incomplete package can look complete.
    if [[ ! -r $stamp || $(head --lines=1 "$stamp") != "$(made_from)" ]]; then
        rm --recursive --force "$venv"
    fi
    mkdir --parents "$venv"
}

check_python() {
    "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
        || stop "$python is $("$python" --version); Castbed needs the system's own Python 3.11, 3.12 or 3.13 there."
}

# The virtual environment takes 1.2 GB; while PySpark is built, it took up to 3.0 GB.
check_disk() {
    local free_mb
    free_mb=$(df --output=avail --block-size=1M "$venv" | tail --lines=1)
    ((free_mb >= 3500)) || stop "the disk of $root has $((free_mb)) MB free, and 3500 MB are needed. Free some space, then run ./setup.sh again."
}

pip() {
    # The temporary files of a build are too large for a /tmp in memory.
    mkdir --parents "$venv/tmp"
    logged env TMPDIR="$venv/tmp" PYTHONNOUSERSITE=1 "$venv/bin/python" -m pip \
        --no-input --disable-pip-version-check install --no-deps "$@" || explain_failure
}

built_here='^(ovs|pyspark|ryu)=='

# The lines of the lock file for packages that are built here. Ryu and the library of Open vSwitch are for Mininet.
to_build() {
    if [[ $engine == mininet ]]; then
        grep --extended-regexp "$built_here" "$lock"
    else
        grep '^pyspark==' "$lock"
    fi
}

install_python_packages() {
    is_up_to_date && return
    check_python
    check_disk
    rm --force "$stamp"
    begin "virtual environment"
    # Mininet is a system package, so the virtual environment uses the system's site packages.
    logged "$python" -m venv --system-site-packages "$venv" || explain_failure
    begin "Python packages"
    pip --only-binary=:all: --requirement <(grep --invert-match --extended-regexp "$built_here" "$lock")
    begin "packages that are built here (PySpark is a download of 400 MB)"
    # Ryu builds only with the version of setuptools in the lock file; build isolation would use the newest.
    pip --no-build-isolation --requirement <(to_build)
    rm --recursive --force "$venv/tmp"
}

# Without the archive Spark starts more slowly; nothing else is different.
archive_classes() {
    is_up_to_date && return
    has_java || return 0
    begin "archive of Spark's classes, for a quick start"
    logged env PYTHONPATH="$root" PYTHONSAFEPATH=1 PYTHONNOUSERSITE=1 "$venv/bin/python" -m analysis.class_archive \
        || say "the archive could not be made; Spark will start more slowly"
}

is_running() {
    local pid_file=/var/run/openvswitch/$1.pid
    [[ -r $pid_file ]] && [[ $(cat "/proc/$(<"$pid_file")/comm" 2>/dev/null) == "$1" ]]
}

open_vswitch_runs() { is_running ovsdb-server && is_running ovs-vswitchd; }

start_open_vswitch() {
    open_vswitch_runs && return
    need_root
    begin "starting Open vSwitch"
    if [[ -d /run/systemd/system ]]; then
        logged as_root systemctl start openvswitch-switch || true
    else
        logged as_root /usr/share/openvswitch/scripts/ovs-ctl start --system-id=random || true
    fi
    # If the kernel lacks Open vSwitch's module, the scripts above fail, although the userspace datapath would work.
    if is_running ovsdb-server && ! is_running ovs-vswitchd; then
        logged as_root ovs-vswitchd --pidfile --detach --log-file || true
    fi
    open_vswitch_runs || stop "Open vSwitch does not start. The reason is in $log or in /var/log/openvswitch."
}

write_stamp() {
    is_up_to_date && return
    stamp_text >"$stamp"
    # After sudo, the folder belongs to the owner of the repository.
    ((EUID != 0)) || chown --recursive --reference="$root" "$venv"
}

# Sets up everything outside the virtual environment that a run on Mininet needs.
set_up_machine() {
    install_packages
    install_virtual_machine
    start_open_vswitch
}

main() {
    case "$*" in
        --check)
            engine=simulator
            is_up_to_date && exit 0 || exit 1
            ;;
        --simulator) engine=simulator ;;
        '') if only_simulates; then engine=simulator; fi ;;
        *) stop "unknown argument '$*'. Run ./setup.sh without arguments, with --simulator, or with --check." ;;
    esac
    umask 022
    if [[ $engine == simulator ]]; then
        say "without root: only simulations (--on simulator), campaigns and analyses will work. For Mininet run ./setup.sh as root."
        has_java || say "no Java 17 or newer at $java: runs can be made, checked and, if they are small, analysed; large ones only after Java is installed." >&2
    else
        check_system
    fi
    take_turn
    if is_up_to_date && { [[ $engine == simulator ]] || machine_is_ready; }; then
        say "nothing to do"
        return
    fi
    prepare_venv_folder
    [[ $engine == simulator ]] || set_up_machine
    install_python_packages
    archive_classes
    write_stamp
    say "done"
}

machine_is_ready() { open_vswitch_runs && [[ -z $(missing_packages) ]] && ! wants_virtual_machine; }

# When sourced, the script only defines its functions.
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
