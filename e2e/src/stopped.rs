//! A command that stands still at a chosen system call, so that others can come in between.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Fault, Point, World, eventually};

/// So often it is found as it was.
const LOOKS: usize = 10;

#[derive(Debug)]
pub struct Stopped {
    child: Child,
    pid: i32,
}

impl Stopped {
    /// Starts `whatif …`; a signal stops it when this call is done.
    #[track_caller]
    pub fn at(w: &World, point: &Point, arguments: &[&str]) -> Self {
        let call = w.with_fault(point, Fault::Signal("SIGSTOP"), arguments);
        let child = call.streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let mut pid = 0;
        eventually("it is stopped", || {
            pid = fs::read_to_string(&children).unwrap_or_default().split_whitespace().next().map_or(0, |p| p.parse().unwrap_or(0));
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // A tracer keeps it from being shown as merely stopped.
            pid != 0
                && matches!(state_of(&stat), Some('T' | 't'))
                && fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().starts_with("whatif")
                && is_in_group_stop(pid, child.id())
        });
        Self { child, pid }
    }

    pub fn kill(self) {
        let _ = self.kill_alone().wait();
    }

    /// The same where a keeper that it started lives on: the tracer, which is returned, ends with the last of them.
    #[must_use]
    pub fn kill_alone(self) -> Child {
        self.send(Signal::KILL);
        self.child
    }

    /// Lets it go on to its end, and returns its exit code.
    #[must_use]
    pub fn go_on(mut self) -> Option<i32> {
        self.send(Signal::CONT);
        self.child.wait().expect("it is our child").code()
    }

    fn send(&self, signal: Signal) {
        let _ = kill_process(Pid::from_raw(self.pid).expect("it has one"), signal);
    }
}

/// Stopped for good, and not only for as long as the tracer looks at a call: that one sleeps, too, and has not been woken.
fn is_in_group_stop(pid: i32, tracer: u32) -> bool {
    let states =
        || [pid.to_string(), tracer.to_string()].map(|id| fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default());
    let first = states();
    // The machine may be busy with much else.
    let stays = || {
        std::thread::sleep(Duration::from_millis(20));
        first == states()
    };
    state_of(&first[1]) == Some('S') && (0..LOOKS).all(|_| stays())
}

fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}
