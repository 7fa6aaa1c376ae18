//! A review from its first screen to its last: events in, frames out, decisions stored as they are made.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind};
use whatif_engine::changes::diff::{Diff, Subject as Whose};
use whatif_engine::changes::status::conflicts_in;
use whatif_engine::{Change, Engine, EngineError};
use whatif_types::Status;

use super::app::{App, Effect, Subject};
use super::draw::draw;
use super::keys::action;
use super::layout::{Areas, fit};
use super::screen::{Heard, Screen};
use super::theme::{Theme, Tone};

/// How long a signal may wait.
const TICK: Duration = Duration::from_millis(150);
/// How long keys may wait for work in the background.
const SLICE: Duration = Duration::from_millis(15);

/// How a review ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Quit,
    /// What was accepted is to be applied.
    Apply,
    Signal(i32),
}

#[derive(Debug)]
struct Session<'a> {
    engine: &'a Engine,
    diff: Diff,
    app: App,
    areas: Areas,
    theme: Theme,
    /// Events nobody has answered yet.
    heard: VecDeque<Event>,
}

/// Reviews on our terminal.
pub fn run(engine: &Engine, mut diff: Diff, theme: Theme, mouse: bool) -> Result<(End, App), EngineError> {
    let app = begin(engine, &mut diff)?;
    let mut session = Session { engine, diff, app, areas: Areas::default(), theme, heard: VecDeque::new() };
    let failed = |source| EngineError::io("use", "/dev/tty", source);
    let mut screen = Screen::take(mouse).map_err(failed)?;
    let end = session.go_on(&mut screen).map_err(failed);
    drop(screen);
    // Whatever happened to the screen, what was decided is kept.
    session.save()?;
    Ok((end?, session.app))
}

fn begin(engine: &Engine, diff: &mut Diff) -> Result<App, EngineError> {
    let mut review = engine.changes.review(&diff.sandbox, &diff.set)?;
    review.digest.clone_from(&diff.set.digest);
    let conflicts = conflicts_in(&diff.set);
    let subject = Subject {
        conflicts,
        name: diff.sandbox.name.clone(),
        project: diff.sandbox.project.clone(),
        is_alive: diff.sandbox.status == Status::Active,
        changes: std::mem::take(&mut diff.set.changes),
        packages: std::mem::take(&mut diff.set.packages),
    };
    Ok(App::new(subject, review, Change::content))
}

/// Long enough for the library to read what is there.
const SHORT: Duration = Duration::from_millis(2);
const HANG_UP: i32 = rustix::process::Signal::HUP.as_raw();

impl Session<'_> {
    fn go_on(&mut self, screen: &mut Screen) -> io::Result<End> {
        let mut is_stale = true;
        loop {
            if is_stale {
                self.show(screen)?;
            }
            is_stale = self.work();
            // Everything typed so far before the next frame: a held key never runs ahead of the screen.
            let wait = if is_stale { Duration::ZERO } else { TICK };
            let heard = screen.wait(wait);
            // Also when nothing was typed: the size of the screen may have changed.
            while heard != Heard::Gone && event::poll(SHORT)? {
                self.heard.push_back(event::read()?);
            }
            while let Some(event) = self.next_event() {
                is_stale = true;
                match self.hear(event) {
                    Effect::Nothing => {}
                    Effect::Reload => self.look_again(screen)?,
                    Effect::Suspend => screen.suspend()?,
                    Effect::Apply => return Ok(End::Apply),
                    Effect::Quit => return Ok(End::Quit),
                }
            }
            if let Some(signal) = screen.ending_signal().or((heard == Heard::Gone).then_some(HANG_UP)) {
                return Ok(End::Signal(signal));
            }
            if let Err(error) = self.save() {
                self.app.say(Tone::Bad, format!("decisions cannot be stored: {error}"));
                is_stale = true;
            }
        }
    }

    /// What was typed while a search goes on waits for its end, unless it is to end at once.
    fn next_event(&mut self) -> Option<Event> {
        if self.app.hunt.is_some() {
            let at = self.heard.iter().position(|e| matches!(e, Event::Key(key) if key.code == KeyCode::Esc))?;
            self.heard.drain(..=at);
            self.app.hunt = None;
        }
        self.heard.pop_front()
    }

    fn show(&mut self, screen: &mut Screen) -> io::Result<()> {
        let (app, theme) = (&mut self.app, self.theme);
        let mut areas = self.areas;
        screen.terminal.draw(|frame| {
            areas = fit(app, frame.area());
            draw(frame, app, areas, theme);
        })?;
        self.areas = areas;
        Ok(())
    }

    fn hear(&mut self, event: Event) -> Effect {
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => {}
            Event::Key(key) if self.app.prompt.is_some() => self.app.type_in(key),
            Event::Key(key) => return action(key).map_or(Effect::Nothing, |a| self.app.act(a)),
            Event::Mouse(mouse) if self.app.prompt.is_none() && !self.app.help => self.app.point(mouse, self.areas),
            _ => {}
        }
        Effect::Nothing
    }

    /// Searches, or counts lines of files in view, for a moment; says whether the screen is to be drawn again.
    fn work(&mut self) -> bool {
        let start = Instant::now();
        let mut worked = false;
        while start.elapsed() < SLICE && self.work_a_little() {
            worked = true;
        }
        worked
    }

    fn work_a_little(&mut self) -> bool {
        let app = &mut self.app;
        if app.hunt.is_some() {
            app.hunt_on();
            return true;
        }
        let in_view = app.list.rows.iter().skip(app.list.top).take(app.list.height).filter_map(|n| app.tree.nodes[*n].change());
        let next = in_view.into_iter().find(|c| app.counts.get(*c).is_none());
        if let Some(change) = next {
            app.counts.learn(change, &app.subject.changes[change], app.read);
        }
        next.is_some()
    }

    fn look_again(&mut self, screen: &mut Screen) -> io::Result<()> {
        self.app.say(Tone::Dim, "looking at the sandbox …");
        self.show(screen)?;
        let looked = self.save().and_then(|()| {
            let mut diff = self.engine.changes.diff(&Whose::Sandbox((&self.diff.sandbox).into()), whatif_engine::Depth::Review)?;
            Ok((begin(self.engine, &mut diff)?, diff))
        });
        match looked {
            Ok((new, diff)) => {
                self.diff = diff;
                let review = new.decisions.review().clone();
                self.app.reload(new.subject, review);
            }
            Err(error) => self.app.say(Tone::Bad, error.to_string()),
        }
        Ok(())
    }

    fn save(&mut self) -> Result<(), EngineError> {
        if self.app.decisions.is_unsaved {
            self.engine.changes.save_review(&self.diff.sandbox, self.app.decisions.review())?;
            self.app.decisions.is_unsaved = false;
        }
        Ok(())
    }
}
