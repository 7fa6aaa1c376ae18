//! What package managers and their like are served: one small package of each kind, all called `hello`.

use std::path::PathBuf;

use crate::World;
use crate::outside::{Authority, Outside, PUBLIC};

/// The name that a rule allows.
pub const ALLOWED: &str = "good.test";
/// Another name of the same server, with a certificate as good.
pub const DENIED: &str = "denied.test";

const GOODS: &str = include_str!("network_clients/goods.py");
const GIT_BACKEND: &str = include_str!("network_clients/git_backend.py");
const GIT_DAEMON: &str = include_str!("network_clients/git_daemon.py");

/// Shell code before each client. Some tools know nothing of proxies, others are told of one and must not need it.
const WITHOUT_HINTS: &str = "unset http_proxy https_proxy no_proxy all_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY";
const WITH_HINTS: &str = "test -n \"$http_proxy\" && test -n \"$HTTPS_PROXY\" || { echo 'no hints'; exit 0; }";

/// A server with everything, known by both names.
#[derive(Debug)]
pub struct Shop {
    pub tls: Authority,
    pub served: PathBuf,
}

impl Shop {
    /// Opened over TLS, at this port.
    #[track_caller]
    pub fn open(w: &World, o: &Outside, port: u16) -> Self {
        o.name(ALLOWED, &[PUBLIC]);
        o.name(DENIED, &[PUBLIC]);
        let tls = o.authority(w, &[ALLOWED, DENIED]);
        let served = w.dir.join("served");
        w.mkdir(&served);
        let origin = format!("https://{ALLOWED}:{port}");
        w.program("/usr/bin/python3").args(["-c", GOODS]).args([&served.to_string_lossy().into_owned(), &origin]).go().ok();
        o.files_tls(PUBLIC, port, &served, &tls);
        Self { tls, served }
    }

    /// A repository with one commit, as `hello.git` among the rest.
    #[track_caller]
    pub fn stock_repository(&self, w: &World) {
        let script = "git init -q -b main work && cd work && echo 'hello from git' > file && git add . && \
                      git -c user.name=n -c user.email=a@b.c commit -qm first && cd .. && git clone -q --bare work hello.git && \
                      git -C hello.git update-server-info && rm -r work";
        w.program("/bin/sh").args(["-c", script]).cwd(&self.served).go().ok();
    }

    /// Git's smart protocol over plain HTTP.
    pub fn serve_git_over_http(&self, o: &Outside) {
        o.python(GIT_BACKEND, &[PUBLIC, "80", self.served.to_str().expect("scratch paths are text")]);
    }

    /// Git's own protocol.
    pub fn serve_git(&self, o: &Outside) {
        o.python(GIT_DAEMON, &[PUBLIC, "9418", self.served.to_str().expect("scratch paths are text")]);
    }
}

/// A client, as a shell script that takes its host from `$HOST`, and what it prints when it got through.
#[derive(Debug)]
pub struct Client<'a> {
    pub rule: &'a str,
    pub script: &'a str,
    pub prints: &'a str,
}

/// By the name that is allowed they get through, with and without hints; by the other they do not, and nothing is sent.
#[track_caller]
pub fn pass_by_name_only(w: &World, o: &Outside, clients: &[Client<'_>]) {
    let ways = || clients.iter().flat_map(|client| [(client, WITHOUT_HINTS), (client, WITH_HINTS)]);
    for (client, hints) in ways() {
        let denied = o.nothing_leaves(client.script, || client.inside(w, hints, DENIED));
        assert!(denied.code != 0 && !denied.stdout.contains(client.prints), "{hints}: {denied:?}");
    }
    assert!(!o.was_asked("denied"), "{:?}", o.asked());
    for (client, hints) in ways() {
        let allowed = client.inside(w, hints, ALLOWED).ok();
        assert!(allowed.stdout.contains(client.prints), "{hints}: {allowed:?}");
    }
    // It is the name that made the difference: the same script works with the other one where nobody minds.
    for client in clients {
        let plain = w.program("/bin/sh").args(["-c", &client.with(WITHOUT_HINTS, DENIED)]).go().ok();
        assert!(plain.stdout.contains(client.prints), "{plain:?}");
    }
}

impl Client<'_> {
    #[track_caller]
    fn inside(&self, w: &World, hints: &str, host: &str) -> crate::Outcome {
        let rule = format!("allow={}", self.rule);
        let script = self.with(hints, host);
        w.whatif(["run", "--rm", "--quiet", "--net", &rule, "--", "/bin/sh", "-c", &script]).go()
    }

    fn with(&self, hints: &str, host: &str) -> String {
        format!("{hints}\nset -e\nexport HOST={host}\n{}", self.script)
    }
}
