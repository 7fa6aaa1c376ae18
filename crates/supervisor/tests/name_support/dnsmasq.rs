//! A real name server.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::message::query;
use super::{Scratch, skip};

pub struct Dnsmasq {
    child: Child,
    scratch: Scratch,
}

impl Dnsmasq {
    /// On 127.0.0.1, port 53, of the namespace the caller is in. `None` if it is not installed.
    pub async fn start(arguments: &[String]) -> Option<Self> {
        let scratch = Scratch::new();
        let program =
            ["/usr/sbin/dnsmasq", "/usr/bin/dnsmasq", "/sbin/dnsmasq"].into_iter().find(|path| std::path::Path::new(path).exists());
        let Some(program) = program else {
            skip("dnsmasq is not installed (Debian: dnsmasq-base)");
            return None;
        };
        let mut command = Command::new(program);
        // So it stays the user it is started as: in a user namespace there is no other.
        command.args(["--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file"]);
        command.args(["--listen-address=127.0.0.1", "--bind-interfaces", "--log-queries", "--log-facility=-"]);
        let log = std::fs::File::create(scratch.path("log")).unwrap();
        let child = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut started = Self { child, scratch };
        started.wait().await;
        Some(started)
    }

    async fn wait(&mut self) {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for _ in 0..200 {
            assert_eq!(self.child.try_wait().unwrap(), None, "dnsmasq ended: {}", self.log());
            let asked = socket.send_to(&query(1, "ready.example", 1), "127.0.0.1:53").await;
            let mut buffer = [0; 512];
            if asked.is_ok()
                && tokio::time::timeout(Duration::from_millis(50), socket.recv(&mut buffer)).await.is_ok_and(|got| got.is_ok())
            {
                return;
            }
        }
        panic!("dnsmasq does not answer: {}", self.log());
    }

    /// Every question it was asked is in it.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.path("log")).unwrap_or_default()
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
