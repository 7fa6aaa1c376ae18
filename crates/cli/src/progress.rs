//! A line that says how far long work has come, on a terminal only.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::output::{Output, printable};

/// Quicker work needs no line.
const PATIENCE: Duration = Duration::from_millis(400);
const INTERVAL: Duration = Duration::from_millis(100);

/// Any such line.
#[derive(Debug)]
pub struct Line {
    word: &'static str,
    wanted: bool,
    began: Instant,
    last: Option<Instant>,
}

impl Line {
    #[must_use]
    pub fn new(word: &'static str, output: &Output) -> Self {
        Self { word, wanted: is_wanted(output), began: Instant::now(), last: None }
    }

    pub fn show(&mut self, state: &str) {
        let due = self.began.elapsed() > PATIENCE && self.last.is_none_or(|l| l.elapsed() > INTERVAL);
        if self.wanted && due {
            self.last = Some(Instant::now());
            let _ = write!(std::io::stderr(), "\r{} {state}\x1b[K", self.word);
        }
    }

    pub fn clear(&mut self) {
        if self.last.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Such a line for work that does not tell how far it has come: it says for how long it goes on.
#[derive(Debug)]
pub struct Clock {
    /// Dropped to end the thread.
    ended: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    #[must_use]
    pub fn start(word: &'static str, name: &str, output: &Output) -> Self {
        let mut line = Line::new(word, output);
        let name = printable(name);
        if !line.wanted {
            return Self { ended: None, thread: None };
        }
        let (ended, has_ended) = channel();
        let tick = move || {
            while has_ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let seconds = line.began.elapsed().as_secs();
                line.show(&if seconds > 0 { format!("{name} … {seconds} s") } else { format!("{name} …") });
            }
        };
        // Without a thread there is no line.
        let thread = std::thread::Builder::new().spawn(tick).ok();
        Self { ended: Some(ended), thread }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        drop(self.ended.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// On a terminal that can erase the line again.
fn is_wanted(output: &Output) -> bool {
    !output.json && std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How far an apply has come.
#[derive(Debug)]
pub struct Progress {
    line: Line,
}

impl Progress {
    #[must_use]
    pub fn new(output: &Output) -> Self {
        Self { line: Line::new("", output) }
    }

    pub fn show(&mut self, progress: &whatif_engine::changes::apply::Progress) {
        if progress.stage == whatif_engine::changes::apply::Stage::Waiting {
            self.line.word = "waiting";
            return self.line.show("for another apply in this project");
        }
        self.line.word = match progress.stage {
            whatif_engine::changes::apply::Stage::Waiting | whatif_engine::changes::apply::Stage::Staging => "preparing",
            whatif_engine::changes::apply::Stage::Swapping => "applying",
            whatif_engine::changes::apply::Stage::Finishing => "finishing",
        };
        self.line.show(&format!("{} of {}", progress.done, progress.total));
    }
}
