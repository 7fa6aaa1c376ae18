//! What was decided about the network of a sandbox.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::net::IpAddr;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use whatif_sys::absence;
use whatif_types::network::{Event, EventKind, Protocol, Rule, Who};
use whatif_types::{Sandbox, Selector, Status};

use super::{LOG, PID, directory, supervise};
use crate::EngineError;
use crate::network::Network;

/// The numbers of one supervisor's connections have the rest in common: when it began.
const ID_BITS: u32 = 20;

/// Fewer bytes than it takes until a supervisor collapses anything.
const SHORT_RECORD: u64 = 16 << 10;

/// One question, connection or request, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    pub at_ms: u64,
    pub kind: EventKind,
    pub protocol: Protocol,
    pub host: String,
    pub port: Option<u16>,
    pub address: Option<IpAddr>,
    pub allowed: bool,
    pub because: String,
    pub hint: Option<String>,
    pub who: Option<Who>,
    pub sent: u64,
    pub received: u64,
    /// So many alike, of which this is the last; 0: one.
    pub repeats: u64,
    /// A connection that goes on.
    pub is_open: bool,
    /// Why an allowed connection came to nothing, or how it was cut.
    pub failed: Option<String>,
}

/// What `whatif net` shows.
#[derive(Debug)]
pub struct Decisions {
    pub sandbox: Sandbox,
    pub all: Vec<Decision>,
    /// So many were not recorded.
    pub omitted: u64,
    pub supervisor: Supervision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Supervision {
    /// Nothing to supervise: no network, the host's, or a sandbox that does not run.
    NotNeeded,
    /// Nobody has used the network so far.
    NotYet,
    Running,
    /// It ended although the sandbox goes on; nothing gets out until it is started again.
    Gone,
}

/// Connections that came to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Troubles {
    pub denied: Vec<Denied>,
    pub failed: Vec<Unreached>,
}

/// A host that was allowed and could not be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreached {
    pub host: String,
    pub port: Option<u16>,
    pub count: u64,
    pub because: String,
}

/// A host that was denied, however often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Denied {
    pub host: String,
    pub port: Option<u16>,
    pub count: u64,
    pub because: String,
    /// The flag that would allow it.
    pub hint: Option<String>,
}

impl Decisions {
    /// For programs.
    #[must_use]
    pub fn document(&self) -> Value {
        json!({
            "sandbox": self.sandbox.name,
            "network": self.sandbox.details.net,
            "rules": self.sandbox.details.network,
            "supervisor": self.supervisor,
            "decisions": self.all,
            "omitted": self.omitted,
        })
    }
}

impl Network {
    pub fn decisions(&self, which: &Selector) -> Result<Decisions, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let place = self.ground.directory(&sandbox)?;
        let supervisor = supervision(&sandbox, &place);
        self.settle_record(&sandbox, &place);
        let (mut all, omitted) = merge(events(&directory(&place).join(LOG), 0)?);
        if supervisor != Supervision::Running {
            all.iter_mut().for_each(Decision::lose);
        }
        Ok(Decisions { sandbox, all, omitted, supervisor })
    }

    /// Where the record ends now; what comes later is found from here.
    #[must_use]
    pub fn network_mark(&self, sandbox: &Sandbox) -> u64 {
        let log = self.ground.directory(sandbox).map(|d| directory(&d).join(LOG));
        log.ok().and_then(|path| path.metadata().ok()).map_or(0, |m| m.len())
    }

    /// What came to nothing since then.
    #[must_use]
    pub fn troubles_since(&self, sandbox: &Sandbox, mark: u64) -> Troubles {
        let Ok(place) = self.ground.directory(sandbox) else { return Troubles::default() };
        self.settle_record(sandbox, &place);
        // What is not known is not said; the record itself can be looked at.
        let events = events(&directory(&place).join(LOG), mark).unwrap_or_default();
        Troubles { denied: denied(&events), failed: failed(&events) }
    }

    /// A supervisor collapses what repeats, and writes it down when it is asked how it stands. A short record has none of that.
    fn settle_record(&self, sandbox: &Sandbox, place: &Path) {
        let is_long = directory(place).join(LOG).metadata().is_ok_and(|log| log.len() > SHORT_RECORD);
        if is_long && supervise::find(place, &sandbox.id).is_some() {
            let _ = self.control(sandbox).map(|mut control| control.status());
        }
    }
}

fn supervision(sandbox: &Sandbox, place: &Path) -> Supervision {
    if sandbox.status != Status::Active || !sandbox.details.is_supervised() {
        return Supervision::NotNeeded;
    }
    match supervise::find(place, &sandbox.id) {
        Some(_) => Supervision::Running,
        // If that cannot be found out: all that is known is that there is none.
        None if absence::exists(&directory(place).join(PID)).unwrap_or(true) => Supervision::Gone,
        None => Supervision::NotYet,
    }
}

fn events(log: &Path, from: u64) -> Result<Vec<Event>, EngineError> {
    let failed = |e: std::io::Error| EngineError::io("read", log, e);
    let mut file = match File::open(log) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let lines = BufReader::new(file).split(b'\n');
    // The last one may not be whole yet.
    Ok(lines.map_while(Result::ok).filter_map(|line| serde_json::from_slice(&line).ok()).collect())
}

/// The end of a connection is put to its beginning.
fn merge(events: Vec<Event>) -> (Vec<Decision>, u64) {
    let mut all: Vec<Decision> = Vec::new();
    let mut open: BTreeMap<u64, usize> = BTreeMap::new();
    let mut omitted = 0;
    let mut newest = 0;
    for event in events {
        // Another supervisor; what the one before it left open is gone with it.
        if event.id >> ID_BITS > newest {
            newest = event.id >> ID_BITS;
            open.clear();
            all.iter_mut().for_each(Decision::lose);
        }
        match event.kind {
            EventKind::Omitted => omitted += event.sent,
            EventKind::Closed => {
                if let Some(decision) = open.remove(&event.id).and_then(|index| all.get_mut(index)) {
                    decision.end(event);
                }
            }
            EventKind::Failed => match open.remove(&event.id).and_then(|index| all.get_mut(index)) {
                Some(decision) => decision.end(event),
                None => all.push(Decision { failed: Some(event.because.clone()), ..Decision::new(event) }),
            },
            EventKind::Resolve | EventKind::Connect | EventKind::Request => {
                let is_open = event.kind == EventKind::Connect && event.allowed && event.repeats == 0;
                if is_open {
                    open.insert(event.id, all.len());
                }
                all.push(Decision { is_open, ..Decision::new(event) });
            }
        }
    }
    (all, omitted)
}

impl Decision {
    fn new(event: Event) -> Self {
        Self {
            at_ms: event.at_ms,
            kind: event.kind,
            protocol: event.protocol,
            host: event.host,
            port: event.port,
            address: event.address,
            allowed: event.allowed,
            because: event.because,
            hint: event.hint,
            who: event.who,
            sent: event.sent,
            received: event.received,
            repeats: event.repeats,
            is_open: false,
            failed: None,
        }
    }

    /// Its supervisor is gone.
    fn lose(&mut self) {
        if self.is_open {
            self.is_open = false;
            self.failed = Some("lost with its supervisor".to_owned());
        }
    }

    fn end(&mut self, event: Event) {
        self.is_open = false;
        self.sent = event.sent;
        self.received = event.received;
        self.address = event.address.or(self.address);
        self.who = self.who.take().or(event.who);
        self.failed = (!event.because.is_empty()).then_some(event.because);
    }
}

/// By host and port. A name that was only asked for counts if nothing was connected to.
fn denied(events: &[Event]) -> Vec<Denied> {
    let mut all: Vec<Denied> = Vec::new();
    let connected = |host: &str| events.iter().any(|e| e.kind != EventKind::Resolve && e.host == host);
    for event in events.iter().filter(|e| !e.allowed && e.kind != EventKind::Omitted) {
        // Programs ask for the machine's own name, which has no dot, and want nothing of it.
        if event.kind == EventKind::Resolve && (connected(&event.host) || !event.host.contains('.')) {
            continue;
        }
        match all.iter_mut().find(|d| d.host == event.host && d.port == event.port) {
            Some(known) => known.count += event.times(),
            None => all.push(Denied {
                host: event.host.clone(),
                port: event.port,
                count: event.times(),
                because: event.because.clone(),
                hint: event.hint.clone(),
            }),
        }
    }
    all
}

fn failed(events: &[Event]) -> Vec<Unreached> {
    let mut all: Vec<Unreached> = Vec::new();
    for event in events.iter().filter(|e| e.kind == EventKind::Failed) {
        match all.iter_mut().find(|known| known.host == event.host && known.port == event.port) {
            Some(known) => known.count += event.times(),
            None => all.push(Unreached {
                host: event.host.clone(),
                port: event.port,
                count: event.times(),
                because: event.because.clone(),
            }),
        }
    }
    all
}

impl Denied {
    /// The rule that would allow it, if advising it is sound.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        self.hint.as_deref()?.strip_prefix("--net allow=")?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: u64, kind: EventKind, host: &str, port: Option<u16>, allowed: bool) -> Event {
        Event {
            at_ms: 1,
            id,
            kind,
            protocol: Protocol::Tcp,
            host: host.into(),
            port,
            address: None,
            allowed,
            because: String::new(),
            hint: None,
            who: None,
            sent: if kind == EventKind::Closed { 7 } else { 0 },
            received: 0,
            repeats: 0,
        }
    }

    #[test]
    fn an_end_belongs_to_its_beginning() {
        let (all, omitted) = merge(vec![
            event(1, EventKind::Connect, "a", Some(80), true),
            event(2, EventKind::Connect, "b", Some(80), true),
            event(1, EventKind::Closed, "a", Some(80), true),
            event(9, EventKind::Closed, "never seen", None, true),
            event(1 << ID_BITS, EventKind::Connect, "of a later supervisor", Some(80), true),
        ]);
        assert_eq!(omitted, 0);
        let seen: Vec<_> = all.iter().map(|d| (d.host.as_str(), d.is_open, d.sent)).collect();
        assert_eq!(seen, [("a", false, 7), ("b", false, 0), ("of a later supervisor", true, 0)]);
        assert!(all[1].failed.is_some(), "lost");
    }

    #[test]
    fn the_denied_are_counted_by_host_and_port() {
        let all = denied(&[
            event(1, EventKind::Resolve, "a", None, false),
            event(2, EventKind::Connect, "a", Some(80), false),
            event(3, EventKind::Connect, "a", Some(80), false),
            event(4, EventKind::Resolve, "only.asked", None, false),
            event(6, EventKind::Resolve, "this-machine", None, false),
            event(5, EventKind::Connect, "fine", Some(80), true),
        ]);
        let seen: Vec<_> = all.iter().map(|d| (d.host.as_str(), d.port, d.count)).collect();
        assert_eq!(seen, [("a", Some(80), 2), ("only.asked", None, 1)]);
    }
}
