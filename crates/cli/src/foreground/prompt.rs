//! Asks the person at the terminal whether the sandbox may go somewhere.
//!
//! The connection waits meanwhile, and so does what the command prints: nothing of it can appear over a question or below it.
//! Everything else goes on: the command may end, signals arrive, the question may be withdrawn.

mod keys;
mod reset;

use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use whatif_engine::network::Ask;

pub(super) use self::keys::Answer;
use self::keys::Keys;
use super::terminal;
use crate::commands::net::place;
use crate::output::{Output, Style};

/// A little less than the supervisor waits.
const PATIENCE: Duration = Duration::from_secs(55);
/// What is typed until then was meant for the program: nobody has read the question yet.
const HANDS_OFF: Duration = Duration::from_millis(700);
/// Then nobody is there.
const MOST_UNANSWERED: u32 = 2;
const LONGEST_RULE: u16 = 80;
/// What a person can answer.
const CHOICES: &str = "Allow it? [o]nce  for this [p]roject  [a]lways  [N]o";

pub(super) struct Prompt {
    /// `whatif:`, in colour where there are colours.
    tag: String,
    sandbox: String,
    asking: Option<Asking>,
    waiting: VecDeque<Ask>,
    /// In a row.
    unanswered: u32,
    /// A line that waits until the question is answered.
    later: String,
    /// Something of ours was on the screen, and the program has not been told.
    has_drawn: bool,
}

/// The question on the screen.
struct Asking {
    ask: Ask,
    since: Instant,
}

/// What came of a question.
pub(super) enum Outcome {
    Answered {
        ask: Ask,
        answer: Answer,
    },
    /// No, and nothing more is asked. The command gets the key.
    Interrupted(u8),
    /// No, and nothing more is asked: no answer.
    NobodyThere,
}

impl Prompt {
    pub(super) fn new(sandbox: &str, output: &Output) -> Self {
        let tag = output.paint_note(Style::Yellow, "whatif:");
        Self {
            tag,
            sandbox: sandbox.to_owned(),
            asking: None,
            waiting: VecDeque::new(),
            unanswered: 0,
            later: String::new(),
            has_drawn: false,
        }
    }

    /// Whether the terminal is ours now.
    pub(super) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.asking.as_ref().map(|asking| asking.since + PATIENCE)
    }

    /// True once after something of ours was on the screen.
    pub(super) fn gives_screen_back(&mut self) -> bool {
        self.asking.is_none() && std::mem::take(&mut self.has_drawn)
    }

    pub(super) fn ask(&mut self, ask: Ask) {
        self.waiting.push_back(ask);
        self.show_next();
    }

    /// The question need not be answered any more.
    pub(super) fn withdraw(&mut self, id: u64) {
        self.waiting.retain(|ask| ask.id != id);
        if let Some(Asking { ask, .. }) = self.asking.take_if(|asking| asking.ask.id == id) {
            self.conclude(&format!("{} is not wanted any more", host(&ask)));
            self.show_next();
        }
    }

    pub(super) fn tell_too_many(&mut self, ask: &Ask) {
        let line = format!(
            "{} too many questions: {} and others are denied for now; to allow one: whatif net allow {} HOST\r\n",
            self.tag,
            host(ask),
            self.sandbox
        );
        if self.is_asking() {
            self.later = line;
        } else {
            self.has_drawn = true;
            say(&format!("{}{line}", reset::sequence()));
        }
    }

    /// Drops all questions, answered with no; `because` is for the person who sees one.
    pub(super) fn drop_all(&mut self, because: &str) {
        self.waiting.clear();
        if let Some(Asking { ask, .. }) = self.asking.take() {
            self.conclude(&format!("no to {}: {because}", host(&ask)));
        }
    }

    /// Looks at what was typed and at the time.
    pub(super) fn look(&mut self) -> Option<Outcome> {
        let since = self.asking.as_ref()?.since;
        match typed() {
            Typed::Keys(keys) => match keys::meaning(&keys) {
                Keys::Interrupt(key) => return Some(Outcome::Interrupted(key)),
                Keys::Answer(answer) if since.elapsed() >= HANDS_OFF => {
                    self.unanswered = 0;
                    let Asking { ask, .. } = self.asking.take()?;
                    return Some(Outcome::Answered { ask, answer });
                }
                Keys::Answer(_) | Keys::Nothing => {}
            },
            Typed::TerminalGone => return Some(Outcome::NobodyThere),
            Typed::Nothing => {}
        }
        if since.elapsed() < PATIENCE {
            return None;
        }
        self.unanswered += 1;
        if self.unanswered >= MOST_UNANSWERED {
            return Some(Outcome::NobodyThere);
        }
        let Asking { ask, .. } = self.asking.take()?;
        Some(Outcome::Answered { ask, answer: Answer::No })
    }

    /// After an answer: repeats what it was about.
    pub(super) fn confirm(&mut self, ask: &Ask, answered: &str) {
        self.conclude(&format!("{}: {answered}", host(ask)));
        self.show_next();
    }

    fn show_next(&mut self) {
        if self.asking.is_none()
            && let Some(ask) = self.waiting.pop_front()
        {
            say(&format!(
                "{}{}\r\n{}",
                reset::sequence(),
                rule("what follows is whatif's, not the program's"),
                self.question(&ask)
            ));
            self.asking = Some(Asking { ask, since: Instant::now() });
        }
    }

    fn question(&self, ask: &Ask) -> String {
        let request = format!("a program inside wants {}.", host(ask));
        let columns = usize::from(terminal::size().0);
        let fits = "whatif: ".len() + request.chars().count() + CHOICES.len() + 2 < columns;
        match fits {
            true => format!("{} {request} {CHOICES} ", self.tag),
            false => format!("{} {request}\r\n{} ", self.tag, choices_within(columns)),
        }
    }

    fn conclude(&mut self, what: &str) {
        let later = std::mem::take(&mut self.later);
        say(&format!("\r\n{} {what}\r\n{later}{}\r\n", self.tag, rule("what follows is the program's")));
    }
}

fn host(ask: &Ask) -> String {
    place(&ask.host, Some(ask.port))
}

/// No line breaks within the name of a key.
fn choices_within(columns: usize) -> String {
    let mut lines = vec![String::new()];
    // What belongs together has one space in it, what does not has two.
    for choice in CHOICES.replace("? ", "?  ").split("  ") {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(choice),
            Some(line) if line.len() + choice.len() + 3 < columns => line.push_str(&format!("  {choice}")),
            _ => lines.push(choice.to_owned()),
        }
    }
    lines.join("\r\n")
}

/// Plain letters: a program may have loaded others.
fn rule(title: &str) -> String {
    let columns = usize::from(terminal::size().0.min(LONGEST_RULE)).saturating_sub(1);
    let line = format!("--- {title} ");
    format!("{line}{}", "-".repeat(columns.saturating_sub(line.len())))
}

enum Typed {
    Keys(Vec<u8>),
    Nothing,
    TerminalGone,
}

/// All of it: the end of something pasted would look like an answer.
fn typed() -> Typed {
    let input = stdin();
    let mut all = Vec::new();
    let mut some = [0_u8; 4096];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    while all.len() < 1 << 20 && poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0) {
        match rustix::io::read(input, &mut some) {
            Ok(length @ 1..) => all.extend_from_slice(&some[..length]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break,
            Ok(0) | Err(_) => return Typed::TerminalGone,
        }
    }
    if all.is_empty() { Typed::Nothing } else { Typed::Keys(all) }
}

/// On the terminal that the command writes to, which is in raw mode. Standard error may go elsewhere.
fn say(text: &str) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_stay_whole_on_a_narrow_terminal() {
        assert_eq!(choices_within(80), "Allow it?  [o]nce  for this [p]roject  [a]lways  [N]o");
        assert_eq!(choices_within(40), "Allow it?  [o]nce  for this [p]roject\r\n[a]lways  [N]o");
        assert_eq!(choices_within(8), "Allow it?\r\n[o]nce\r\nfor this [p]roject\r\n[a]lways\r\n[N]o");
    }

    #[test]
    fn the_documentation_shows_the_question_as_it_is() {
        let pages = [include_str!("../../../../README.md"), include_str!("../../../../docs/network.md")];
        for page in pages {
            let shown: Vec<&str> = page.lines().filter(|line| line.contains("Allow it?")).collect();
            assert!(!shown.is_empty() && shown.iter().all(|line| line.ends_with(CHOICES)), "{shown:?}");
        }
    }
}
