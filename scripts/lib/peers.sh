# shellcheck shell=bash
# The real programs that some tests talk to, and the Debian packages that bring them. To be sourced; knows no test.
#
# Without them the tests that need them are not run, and say so. With PALLAS_REQUIRE_PEERS=1 (continuous
# integration) a missing one is installed, which takes root, and it is a failure if that cannot be done.

# command | Debian package | what is not run without it
peers='
systemd-analyze|systemd|the check of the systemd unit by systemd itself
'

prepare_peers() {
    local command package what missing=() failed=0
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
        >/dev/null || failed=1
    return "$failed"
}
