//! A command that stands still at a chosen system call, so that others can come in between.

use std::fs;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Fault, Point, World, eventually};

#[derive(Debug)]
pub struct Stopped {
    child: Child,
    pid: i32,
}

impl Stopped {
    /// Starts `whatif …`; a signal stops it when this call is done.
    #[track_caller]
    pub fn at(w: &World, point: &Point, arguments: &[&str]) -> Self {
        let told = w.home.join("stopped.trace");
        let call = w.with_fault_told(point, Fault::Signal("SIGSTOP"), arguments, &told);
        let child = call.streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
        let mut pid = None;
        eventually("it is stopped", || {
            pid = fs::read_to_string(&told).ok().and_then(|told| stopped_in(&told));
            pid.is_some()
        });
        let _ = fs::remove_file(told);
        Self { child, pid: pid.expect("it was found") }
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

/// The process that the tracer has seen come to a stop. (That it is at a call, or got the signal, is said otherwise.)
fn stopped_in(told: &str) -> Option<i32> {
    told.lines().find_map(|line| line.strip_suffix("--- stopped by SIGSTOP ---")?.trim().parse().ok())
}
