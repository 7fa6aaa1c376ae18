//! A terminal with a program in it, driven as a person would.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::{World, wait_for};

#[derive(Debug)]
pub struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    leader: Child,
    seen: usize,
}

/// What leads the terminal's session. It stays when its program has ended: with its leader a terminal loses what nobody has
/// read yet, so what a program wrote last would be on the screen or not. It writes the program's exit code behind everything.
const LEADER: &str = r#"trap : HUP INT QUIT TERM TSTP; "$@"; printf '\033_ended %s\033\\' $?; exec /usr/bin/sleep infinity"#;
const ENDED: &str = "\x1b_ended ";

impl Terminal {
    /// Opens a terminal and runs `whatif …` in it.
    #[must_use]
    pub fn with_whatif(world: &World, arguments: &[&str]) -> Self {
        let bin = world.bin.to_str().expect("scratch paths are text").to_owned();
        Self::with(world, &[&[bin.as_str()], arguments].concat())
    }

    /// Opens a terminal and runs a program in it.
    #[must_use]
    pub fn with(world: &World, program: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there are ptys");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it is ours");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("a plain path");
        resize(&master, 24, 80);
        let slave = || -> Stdio {
            let open = File::options().read(true).write(true).open(&name);
            open.expect("the slave can be opened").into()
        };
        let leader = world
            .program("/usr/bin/setsid")
            .args(["--ctty", "--wait", "/bin/sh", "-c", LEADER, "leader"])
            .args(program)
            .env("TERM", "xterm")
            .streams(slave(), slave(), slave())
            .spawn();
        let screen = Arc::new(Mutex::new(Vec::new()));
        let keyboard = File::from(master);
        let (shared, mut source) = (Arc::clone(&screen), keyboard.try_clone().expect("a descriptor can be copied"));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = source.read(&mut buffer) {
                shared.lock().expect("no reader panics").extend_from_slice(&buffer[..length]);
            }
        });
        Self { keyboard, screen, leader, seen: 0 }
    }

    pub fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits until a text appears after what was expected before.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let found = wait_for(Duration::from_secs(180), || {
            let screen = self.screen.lock().expect("no reader panics");
            let new = String::from_utf8_lossy(&screen[self.seen..]).into_owned();
            new.find(text).map(|at| self.seen + at + text.len())
        });
        let Some(end) = found else { panic!("'{text}' never appeared; the screen:\n{}", self.written()) };
        self.seen = end;
    }

    #[must_use]
    pub fn screen(&self) -> String {
        let all = self.written();
        all.split_once(ENDED).map_or(all.as_str(), |(screen, _)| screen).to_owned()
    }

    fn written(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().expect("no reader panics")).into_owned()
    }

    pub fn resize(&self, rows: u16, columns: u16) {
        resize(&self.keyboard.try_clone().expect("a descriptor can be copied").into(), rows, columns);
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        let leader = self.leader.id();
        let children = std::fs::read_to_string(format!("/proc/{leader}/task/{leader}/children")).expect("the leader is there");
        let program = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        kill_process(program.expect("the program runs"), signal).expect("it is there");
    }

    /// Waits for the program to end and returns its exit code.
    #[track_caller]
    pub fn ends(self) -> i32 {
        let code = wait_for(Duration::from_secs(180), || {
            let all = self.written();
            let (code, _) = all.split_once(ENDED)?.1.split_once('\x1b')?;
            Some(code.parse().expect("a shell's exit code"))
        });
        let Some(code) = code else { panic!("it did not end; the screen:\n{}", self.written()) };
        code
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.leader.kill();
        let _ = self.leader.wait();
    }
}

fn resize(master: &OwnedFd, rows: u16, columns: u16) {
    tcsetwinsize(master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("it is a terminal");
}
