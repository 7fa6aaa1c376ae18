//! A proxy that writes down what it is asked for and hangs up.
//!
//! Others on this machine can connect to it as well, so it has a password, and only who knows that is listened to.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use whatif_sys::random;

const USER: &str = "whatif";
const LONGEST_HEAD: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Proxy {
    listener: TcpListener,
    address: SocketAddr,
    password: String,
}

impl Proxy {
    pub(crate) fn new() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        Ok(Self { address: listener.local_addr()?, listener, password: random_word()? })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{USER}:{}@{}", self.password, self.address)
    }

    /// What the first who knew the password wanted to be connected to, as long as `act` took.
    pub(crate) fn listen_during<T>(self, act: impl FnOnce() -> T) -> (T, Option<String>) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Without a thread nobody is heard.
            let target = Builder::new().spawn_scoped(scope, || self.listen(&is_over));
            let outcome = act();
            is_over.store(true, Ordering::Release);
            // Wakes the other thread up.
            drop(TcpStream::connect(self.address));
            (outcome, target.ok().and_then(|target| target.join().ok().flatten()))
        })
    }

    fn listen(&self, is_over: &AtomicBool) -> Option<String> {
        let mut target = None;
        while !is_over.load(Ordering::Acquire) {
            let (mut stream, _) = self.listener.accept().ok()?;
            let head = head(&mut stream).unwrap_or_default();
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
            target = target.or_else(|| self.target(&head));
        }
        target
    }

    fn target(&self, head: &str) -> Option<String> {
        let expected = format!("proxy-authorization: basic {}", base64(format!("{USER}:{}", self.password).as_bytes()));
        let mut lines = head.split("\r\n");
        let target = lines.next()?.strip_prefix("CONNECT ")?.split(' ').next()?;
        lines.any(|line| line.eq_ignore_ascii_case(&expected)).then(|| target.to_owned())
    }
}

fn head(stream: &mut TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while head.len() < LONGEST_HEAD && !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => break,
            length => head.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// Nobody can guess it.
pub(crate) fn random_word() -> io::Result<String> {
    random::word::<16>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_password_is_listened_to() {
        let proxy = Proxy::new().unwrap();
        let (address, password) = (proxy.address, proxy.password.clone());
        let say = |user: &str, host: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            let key = base64(user.as_bytes());
            write!(stream, "CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic {key}\r\n\r\n").unwrap();
            let _ = stream.read_to_string(&mut String::new());
        };
        let ((), target) = proxy.listen_during(|| {
            say("whatif:wrong", "evil.example");
            drop(TcpStream::connect(address));
            say(&format!("whatif:{password}"), "a.example");
            say(&format!("whatif:{password}"), "b.example");
        });
        assert_eq!(target.as_deref(), Some("a.example:443"));
    }

    #[test]
    fn nobody_asking_is_no_answer() {
        assert_eq!(Proxy::new().unwrap().listen_during(|| 7), (7, None));
    }

    #[test]
    fn base64_has_three_endings() {
        for (plain, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }
}
