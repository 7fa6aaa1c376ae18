//! A page in chromium without a window: what it becomes, how it looks, how it prints.

use std::path::Path;

use super::{Network, Suite, debian, tap};
use crate::failure::Failure;

/// As an ordinary user it has its own sandbox, of user namespaces. As root it has none, and needs none of this.
pub(super) const SUITE: Suite = Suite {
    name: "chromium",
    prepare: install,
    usual,
    all: usual,
    command,
    read: tap::read,
    network: Network::Loopback,
    programs: None,
    options: &["--allow", "userns"],
};

fn install(directory: &Path) -> Result<(), Failure> {
    debian::prepare(directory, "packages chromium")
}

fn usual(_: &Path) -> Result<Vec<String>, Failure> {
    Ok(["dom", "workers", "storage", "screenshot", "pdf"].map(str::to_owned).to_vec())
}

const PREPARE: &str = r#"
cat > page.html <<'END'
<!doctype html><title>t</title><h1 id=h>no</h1><p id=w>no</p><p id=s>no</p><canvas id=c width=9 height=9></canvas>
<script>
document.getElementById('h').textContent = 'sum ' + [1, 2, 3].reduce((a, b) => a + b);
const work = new Worker(URL.createObjectURL(new Blob(['postMessage("from a worker " + 6 * 7)'])));
work.onmessage = e => { document.getElementById('w').textContent = e.data };
localStorage.setItem('k', 'kept here');
const open = indexedDB.open('d', 1);
open.onupgradeneeded = () => open.result.createObjectStore('o');
open.onsuccess = () => { document.getElementById('s').textContent = 'database opened, ' + localStorage.getItem('k') };
</script>
END
flags="--headless --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
flags="$flags --disable-sync --user-data-dir=$PWD/profile --virtual-time-budget=5000"
[ "$(id -u)" != 0 ] || flags="$flags --no-sandbox"
browse() { timeout 120 chromium $flags "$@" "file://$PWD/page.html"; }
check() { name=$1; shift; if "$@"; then echo "ok $name"; else echo "not ok $name"; fi; }
"#;

fn command(_: &Path, part: &str) -> Result<String, Failure> {
    let steps = match part {
        "dom" => "browse --dump-dom > out; check ends [ $? = 0 ]; check 'scripts run' grep -q 'sum 6' out",
        "workers" => "browse --dump-dom > out; check 'a worker answers' grep -q 'from a worker 42' out",
        // Time that is not real waits for no disk, so a database may be too late.
        "storage" => {
            "browse --dump-dom > out; check 'a profile is written' [ -s profile/Default/Preferences ]
             tries=0; until browse --dump-dom > out && grep -q 'database opened, kept here' out || [ $tries = 5 ]; do tries=$((tries + 1)); done
             check 'its databases open again' [ $tries -lt 5 ]"
        }
        "screenshot" => {
            "browse --window-size=640,480 --screenshot=$PWD/page.png; check ends [ $? = 0 ]
             check 'a picture' sh -c 'head -c 4 page.png | grep -q PNG'; check 'not an empty one' [ \"$(stat -c %s page.png)\" -gt 1000 ]"
        }
        "pdf" => {
            "browse --print-to-pdf=$PWD/page.pdf; check ends [ $? = 0 ]
             check 'a document' sh -c 'head -c 5 page.pdf | grep -q %PDF-'; check 'a whole one' sh -c 'tail -c 8 page.pdf | grep -q %%EOF'"
        }
        unknown => return Err(Failure::Usage(format!("'{unknown}' is no part of chromium"))),
    };
    Ok(format!("{PREPARE}\necho 'script {part}'\n{steps}"))
}
