//! Packages and sources of Debian, from where this machine gets its packages.

use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, on};

/// `packages NAME…` installs what is missing. `sources PACKAGE VERSION` unpacks the sources of one in the current directory; an empty
/// version is the newest.
const FUNCTIONS: &str = r#"
packages() {
    missing=
    for name; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing="$missing $name"
    done
    [ -z "$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get install -o DPkg::Lock::Timeout=600 -y -qq $missing
}
sources() {
    mkdir -p lists/partial parts
    if [ -e /etc/apt/sources.list.d/debian.sources ]; then
        sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources > parts/debian.sources
    else
        sed -n 's/^deb \(.*debian.*\)/deb-src \1/p' /etc/apt/sources.list > parts/debian.list
    fi
    apt="apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$PWD/parts -o Dir::State::Lists=$PWD/lists"
    apt="$apt -o APT::Sandbox::User=root"
    $apt update -qq
    $apt source -qq --only-source "$1${2:+=$2}"
}
"#;

/// Runs a shell command outside, which may use these functions, and shows what it prints.
pub(super) fn prepare(directory: &Path, script: &str) -> Result<(), Failure> {
    let shell = Path::new("/bin/sh");
    let whole = format!("{FUNCTIONS}\n{script}");
    let status = Command::new(shell).args(["-ec", &whole]).current_dir(directory).status().map_err(on("start", shell))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("this failed in {}: {script}", directory.display()))) }
}
