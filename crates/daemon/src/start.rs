//! From the command line to a server that listens.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whatif_client::caller::{self, NoPlace};
use whatif_client::chores::InBackground;
use whatif_engine::ground::chores::Chore;
use whatif_engine::ground::token_files;
use whatif_engine::{Caller, Engine, EngineError};
use whatif_types::Explain;
use whatif_types::explain::whole_message;
use whatif_types::text::Text;

use crate::app::App;
use crate::args::Args;
use crate::server::{self, Listening};
use crate::token::{self, TokenError};

/// Why the daemon does not start, or had to end.
#[derive(Debug)]
pub enum Failure {
    Engine(EngineError),
    Token(TokenError),
    Home { named: PathBuf },
    Listen { on: String, source: io::Error },
    Serve(io::Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => f.write_str(&whole_message(error)),
            Self::Token(error) => error.fmt(f),
            Self::Home { named } => write!(f, "WHATIF_HOME is the relative path '{}'; set it to an absolute one", named.display()),
            Self::Listen { on, source } if source.kind() == io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "cannot listen on {on}: another program does; choose another address with --listen, or port 0 for a free one"
                )
            }
            Self::Listen { on, source } => write!(f, "cannot listen on {on}: {source}"),
            Self::Serve(source) => write!(f, "cannot serve: {source}"),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<NoPlace> for Failure {
    fn from(error: NoPlace) -> Self {
        match error {
            NoPlace::Engine(error) => Self::Engine(error),
            NoPlace::Relative { named, .. } => Self::Home { named },
        }
    }
}

/// What nobody asked for over HTTP is told on standard error.
pub fn note(text: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "whatifd: {text}");
}

pub fn tell(failure: &Failure) {
    note(format_args!("error: {failure}"));
    if let Failure::Engine(error) = failure {
        for remedy in error.remedies() {
            note(format_args!("hint: {remedy}"));
        }
    }
}

pub fn serve(args: Args) -> Result<(), Failure> {
    let caller = caller_without_own_secrets()?;
    let place = caller::state_place(&caller)?;
    if let Some(remark) = place.remark_if_new()? {
        note(format_args!("{}; {}", remark.what, remark.fix));
    }
    let token_file = match args.token_file {
        Some(file) => std::path::absolute(&file).map_err(|source| EngineError::io("find", &file, source))?,
        None => token_files::usual(&place.path),
    };
    // Before there is anything to read in it.
    token_files::hide(&place.path, &token_file)?;
    let token = token::at(&token_file).map_err(Failure::Token)?;
    let chores = Arc::new(InBackground::default());
    let engine = Engine::open(&place.path, caller, chores.clone())?;
    for trouble in engine.upkeep.recover()? {
        note(&trouble.message);
    }
    let listening = Listening::on(args.listen, args.socket.as_deref())?;
    announce(&listening, &token_file, args.json);
    let app = App::new(engine, chores, token, listening.address());
    server::run(listening, Arc::new(app)).map_err(Failure::Serve)
}

/// What another process of ours started in the background.
pub fn do_chores(chores: &[Chore]) -> Result<(), Failure> {
    // The daemon attends to its own signals, and what it starts begins with them blocked.
    whatif_sys::signals::unblock_all();
    let caller = caller::from_process()?;
    let engine = Engine::open(&caller::state_place(&caller)?.path, caller, Arc::new(InBackground::default()))?;
    engine.upkeep.recover()?;
    Ok(chores.iter().try_for_each(|chore| engine.upkeep.do_chore(chore))?)
}

/// Commands have the environment of whoever started the daemon, as they have that of whoever types a command, except for what is the
/// daemon's alone. What looks like a secret the engine leaves out for both.
fn caller_without_own_secrets() -> Result<Caller, EngineError> {
    let mut caller = caller::from_process()?;
    caller.environment.retain(|(name, _)| !is_own(name));
    Ok(caller)
}

/// Settings of whatif, and what a service manager tells a daemon.
fn is_own(name: &str) -> bool {
    const OF_SERVICES: [&str; 8] = [
        "NOTIFY_SOCKET",
        "WATCHDOG_USEC",
        "WATCHDOG_PID",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "CREDENTIALS_DIRECTORY",
        "MEMORY_PRESSURE_WATCH",
        "MEMORY_PRESSURE_WRITE",
    ];
    // The engine recognizes by it that it is inside a sandbox itself.
    (name.starts_with("WHATIF_") && name != "WHATIF_SANDBOX") || name.starts_with("LISTEN_") || OF_SERVICES.contains(&name)
}

/// Programs read the address from the first line, people the rest.
fn announce(listening: &Listening, token_file: &Path, as_json: bool) {
    let mut out = io::stdout().lock();
    if as_json {
        let url = format!("http://{}", listening.address());
        let (socket, token_file) = (listening.socket().map(Text::from), Text::from(token_file));
        let _ = writeln!(out, "{}", serde_json::json!({ "url": url, "socket": socket, "token_file": token_file }));
        let _ = out.flush();
        return;
    }
    let _ = writeln!(out, "listening on http://{}", listening.address());
    if let Some(socket) = listening.socket() {
        let _ = writeln!(out, "listening on unix:{}", socket.display());
    }
    let _ = writeln!(out, "the token is in {}", token_file.display());
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_daemons_does_not_reach_commands() {
        for own in ["WHATIF_HOME", "WHATIF_TOKEN", "LISTEN_FDS", "NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY"] {
            assert!(is_own(own), "{own}");
        }
        for others in ["PATH", "HOME", "WHATIF_SANDBOX", "http_proxy", "LANG"] {
            assert!(!is_own(others), "{others}");
        }
    }
}
