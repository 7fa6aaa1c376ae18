//! Where clients are: outside, behind the rules of a sandbox, and behind what others put in the way.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::super::figure::Figure;
use super::super::measure::{Times, demand};
use super::super::scratch::Scratch;
use super::client::{FAILED, READY};
use super::names::DOMAIN;
use super::outside::{ADDRESS, Outside, own_program};
use super::{beside, figure};
use crate::failure::{Failure, on};
use crate::programs;

pub const DIRECT: &str = "direct";
pub const RULES: &str = "through rules";
pub const PASTA: &str = "pasta";
const SLIRP: &str = "slirp4netns";

/// A client that waits for orders. It ends with its standard input.
#[derive(Debug)]
pub struct Place {
    pub label: &'static str,
    client: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// What moves its bytes, where nothing else starts that.
    helper: Option<Child>,
}

/// The direct one is the first and the one behind rules the second; the others may be missing.
pub type Places = Vec<Place>;
type Skipped = Vec<(String, String)>;

/// A copy of this program where everybody can start it, inside and outside.
pub fn client_program(scratch: &Scratch) -> Result<PathBuf, Failure> {
    let copy = scratch.trees().join("net-client");
    let program = own_program()?;
    fs::copy(&program, &copy).map_err(on("copy", &program))?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).map_err(on("open up", &copy))?;
    Ok(copy)
}

pub fn open_all(scratch: &Scratch, outside: &Outside, program: &Path) -> Result<(Places, Skipped), Failure> {
    let address = format!("allow={ADDRESS}");
    let names = format!("allow=*.{DOMAIN}:{}", outside.ports.echo);
    demand("whatif new", scratch.whatif(&["new", "ruled", "--net", &address, "--net", &names]))?;
    let mut exec = scratch.whatif(&["exec", "--interactive", "ruled", "--"]);
    exec.arg(program).arg("net-client");
    let mut places = Vec::new();
    for (label, command) in [(DIRECT, client(scratch, program)), (RULES, exec)] {
        places.push(Place::open(label, command).map_err(|reason| Failure::new(format!("a client {label}: {reason}")))?);
    }
    let mut skipped = Vec::new();
    for (label, place) in [(PASTA, pasta(scratch, program)), (SLIRP, slirp(scratch, program))] {
        // Whether it works is known when something has arrived.
        let tried = place.and_then(|mut place| place.obey(&format!("connect {}", outside.echo())).map(|_| place));
        match tried {
            Ok(place) => places.push(place),
            Err(reason) => skipped.push((label.to_owned(), reason)),
        }
    }
    Ok((places, skipped))
}

pub fn client(scratch: &Scratch, program: &Path) -> Command {
    let mut command = scratch.command(program);
    command.arg("net-client");
    command
}

/// What runs a command behind pasta, up to that command.
pub fn pasta_command(scratch: &Scratch) -> Result<Command, String> {
    let program = programs::find(PASTA).ok_or("pasta is not installed (package passt)")?;
    let mut command = scratch.command(&program);
    command.args(["--quiet", "--foreground", "--config-net"]);
    if scratch.uid() == 0 {
        // It would become somebody who may not do what it does next.
        command.args(["--runas", "0:0"]);
    }
    command.arg("--");
    Ok(command)
}

fn pasta(scratch: &Scratch, program: &Path) -> Result<Place, String> {
    let mut command = pasta_command(scratch)?;
    command.arg(program).arg("net-client");
    Place::open(PASTA, command)
}

fn slirp(scratch: &Scratch, program: &Path) -> Result<Place, String> {
    let slirp = programs::find(SLIRP).ok_or("slirp4netns is not installed")?;
    let unshare = programs::find("unshare").ok_or("unshare is not installed")?;
    let mut inside = scratch.command(&unshare);
    if scratch.uid() != 0 {
        inside.args(["--user", "--map-root-user"]);
    }
    inside.args(["--net", "--"]).arg(program).arg("net-client");
    // It is ready when it is in its namespace, and by then it has the pid that unshare was started with.
    let mut place = Place::open(SLIRP, inside)?;
    let mut command = scratch.command(&slirp);
    command.args(["--configure", "--mtu=65520", "--ready-fd=1", &place.client.id().to_string(), "tap0"]);
    let mut helper = command.stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
    let said = helper.stdout.take().map(|output| BufReader::new(output).fill_buf().map(<[u8]>::to_vec));
    place.helper = Some(helper);
    match said {
        Some(Ok(bytes)) if bytes.starts_with(b"1") => Ok(place),
        _ => Err("slirp4netns did not become ready".to_owned()),
    }
}

impl Place {
    fn open(label: &'static str, mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.spawn().map_err(|error| error.to_string())?;
        let orders = client.stdin.take();
        let answers = BufReader::new(client.stdout.take().ok_or("a client has no output")?);
        let mut place = Self { label, client, orders, answers, helper: None };
        match place.answer()?.as_str() {
            READY => Ok(place),
            other => Err(format!("a client said '{other}'")),
        }
    }

    /// How long the client took for it.
    pub fn obey(&mut self, order: &str) -> Result<Duration, String> {
        let orders = self.orders.as_mut().ok_or("a client takes no orders")?;
        writeln!(orders, "{order}").map_err(|error| format!("a client is gone: {error}"))?;
        let answer = self.answer()?;
        if let Some(reason) = answer.strip_prefix(FAILED) {
            return Err(format!("{order}: {reason}"));
        }
        answer.parse().map(Duration::from_nanos).map_err(|_| format!("{order}: a client said '{answer}'"))
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(0) => Err("a client has ended".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(helper) = &mut self.helper {
            let _ = helper.kill();
            let _ = helper.wait();
        }
        let _ = self.client.wait();
    }
}

/// What each place took for the same, in turns. Nothing is known without the first two; any other that fails is left out.
pub fn in_turns<'a>(places: &'a mut [Place], rounds: Rounds, order: impl Fn(usize) -> String) -> Result<Taken<'a>, Failure> {
    let mut taken: Vec<(Times, Option<String>)> = places.iter().map(|_| Default::default()).collect();
    for round in 0..rounds.warm_up + rounds.measured {
        for turn in 0..places.len() {
            let who = (round + turn) % places.len();
            if taken[who].1.is_some() {
                continue;
            }
            match places[who].obey(&order(round)) {
                Ok(time) if round >= rounds.warm_up => taken[who].0.add(time),
                Ok(_) => {}
                Err(reason) if who < 2 => return Err(Failure::new(format!("{}: {reason}", places[who].label))),
                Err(reason) => taken[who].1 = Some(reason),
            }
        }
    }
    Ok(Taken { places, taken })
}

#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Before the first that counts.
    pub warm_up: usize,
    pub measured: usize,
}

#[derive(Debug)]
pub struct Taken<'a> {
    places: &'a [Place],
    taken: Vec<(Times, Option<String>)>,
}

impl Taken<'_> {
    pub fn direct(&self) -> &Times {
        &self.taken[0].0
    }

    pub fn rules(&self) -> &Times {
        &self.taken[1].0
    }

    /// The direct one, then the one behind rules (which `promise` may add to), then the others.
    pub fn figures(&self, what: &str, promise: impl Fn(Figure) -> Vec<Figure>) -> Vec<Figure> {
        let mut figures = vec![figure(format!("{what}, {DIRECT}"), self.direct())];
        for (place, (times, _)) in self.measured().skip(1) {
            let figure = beside(format!("  {}", place.label), times, DIRECT, self.direct());
            figures.extend(if place.label == RULES { promise(figure) } else { vec![figure] });
        }
        figures
    }

    pub fn skipped(&self, what: &str) -> Vec<(String, String)> {
        let failed = self.places.iter().zip(&self.taken).filter_map(|(place, (_, reason))| Some((place, reason.as_ref()?)));
        failed.map(|(place, reason)| (format!("{what}, {}", place.label), reason.clone())).collect()
    }

    fn measured(&self) -> impl Iterator<Item = (&Place, &(Times, Option<String>))> {
        self.places.iter().zip(&self.taken).filter(|(_, (_, reason))| reason.is_none())
    }
}
