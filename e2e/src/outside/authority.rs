//! A certificate authority for one test, and a certificate for its servers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::Outside;
use crate::World;

#[derive(Clone, Debug)]
pub struct Authority {
    /// In the project, where programs in a sandbox can read it.
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

const MAKE: &str = r#"
set -e
cd "$1"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 -subj "/CN=test authority" \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out request.pem -subj "/CN=server"
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$2" > extensions
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out cert.pem
"#;

impl Outside {
    /// One that vouches for servers of these names and addresses.
    #[track_caller]
    pub fn authority(&self, w: &World, names: &[&str]) -> Authority {
        let kind = |name: &&str| if name.parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" };
        let subjects: Vec<String> = names.iter().map(|name| format!("{}:{name}", kind(name))).collect();
        let made = Command::new("/bin/sh").args(["-c", MAKE, "authority"]).arg(&self.dir).arg(subjects.join(",")).output();
        let made = made.expect("there is a shell");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let ca = w.write("ca.pem", fs::read(self.dir.join("ca.pem")).expect("it was made just now"));
        fs::set_permissions(&ca, fs::Permissions::from_mode(0o644)).expect("it is ours");
        Authority { ca, cert: self.dir.join("cert.pem"), key: self.dir.join("key.pem") }
    }
}
