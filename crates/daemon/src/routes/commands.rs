//! Commands: started, listed, shown, read, signalled, given input. They belong to their sandbox, so neither a client that leaves nor
//! a daemon that dies ends one.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use whatif_engine::ground::{GroundError, limits};
use whatif_engine::lifecycle::LifecycleError;
use whatif_engine::lifecycle::attach::Attached;
use whatif_engine::lifecycle::background::{self, Background};
use whatif_engine::lifecycle::logs::{Excerpt, Stream};
use whatif_engine::{CommandSpec, Detached, Engine, EngineError, Exited, Kept, Stdio};
use whatif_types::{Chosen, CommandId, LimitHit, Limits, Principal, SandboxId, Selector, Span, Usage};

use crate::app::{Shared, selected};
use crate::extract::{Json, Query, Words};
use crate::problem::Problem;
use crate::reply::{self, Answer};
use crate::routes::sandboxes::environment;

/// What a waited-for command wrote, of each stream; the rest is in its output.
const MOST_SHOWN: usize = 1 << 20;
/// One part of an output.
const LARGEST_PART: usize = 4 << 20;
const USUAL_PART: usize = 1 << 20;

/// A command to be started
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRequest {
    /// The program and its arguments; for a shell, `["sh", "-c", "..."]`
    #[schema(min_items = 1)]
    argv: Vec<String>,
    /// Relative to where the sandbox was made
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// What it reads from its standard input, which then ends
    stdin: Option<String>,
    /// Keep its standard input open for `input`
    #[serde(default)]
    keep_stdin: bool,
    /// End it after this time, such as `90s`
    #[schema(value_type = Option<String>)]
    timeout: Option<Span>,
}

impl CommandRequest {
    fn check(&self) -> Result<(), Problem> {
        if self.argv.is_empty() {
            return Err(Problem::field("argv", "names no program"));
        }
        if self.stdin.is_some() && self.keep_stdin {
            return Err(Problem::field("keep_stdin", "the standard input ends after 'stdin'; send that with 'input' instead"));
        }
        Ok(())
    }

    fn into_spec(self) -> Result<(CommandSpec, Option<String>), Problem> {
        let input = if self.stdin.is_some() || self.keep_stdin { Stdio::Kept } else { Stdio::Null };
        let spec = CommandSpec {
            arguments: self.argv.into_iter().map(Into::into).collect(),
            env: environment(&self.env)?,
            cwd: self.cwd.map(Into::into),
            stdio: [input, Stdio::Null, Stdio::Null],
            terminal: None,
            timeout: self.timeout.map(Span::duration),
            called: None,
        };
        Ok((spec, self.stdin))
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct StartQuery {
    /// Answer when the command has ended, with its result
    wait: bool,
}

/// A command in a sandbox
#[derive(Debug, Serialize, ToSchema)]
pub struct CommandView {
    id: String,
    /// Its process, as the sandbox numbers it
    pid: i32,
    command: String,
    started_at: String,
    /// `running`, `ended`, or `lost` if its sandbox ended before it could say how
    state: &'static str,
    /// 128 + the signal, if a signal ended it
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    /// The limit that ended it, such as `memory`
    #[schema(value_type = Option<String>)]
    limit_hit: Option<LimitHit>,
    #[schema(value_type = Option<Object>)]
    usage: Option<Usage>,
    takes_input: bool,
}

impl From<Background> for CommandView {
    fn from(known: Background) -> Self {
        let (state, exited) = match known.state {
            background::State::Running => ("running", None),
            background::State::Ended(exited) => ("ended", Some(exited)),
            background::State::Lost => ("lost", None),
        };
        Self {
            id: known.id.to_string(),
            pid: known.pid,
            command: known.command,
            started_at: known.started_at,
            state,
            exit_code: exited.as_ref().map(|exited| exited.code),
            signal: exited.as_ref().and_then(|exited| exited.signal),
            timed_out: exited.as_ref().is_some_and(|exited| exited.timed_out),
            limit_hit: exited.as_ref().and_then(|exited| exited.limit_hit),
            usage: exited.map(|exited| exited.usage),
            takes_input: known.takes_input,
        }
    }
}

/// What came of a command that was waited for
#[derive(Debug, Serialize, ToSchema)]
pub struct ResultView {
    id: String,
    exit_code: i32,
    signal: Option<i32>,
    timed_out: bool,
    #[schema(value_type = Option<String>)]
    limit_hit: Option<LimitHit>,
    #[schema(value_type = Object)]
    usage: Usage,
    /// The last of it; bytes that are not UTF-8 are replaced
    stdout: String,
    stderr: String,
    /// Whether there was more
    truncated: bool,
}

/// A command that was started
#[derive(Debug, Serialize, ToSchema)]
pub struct StartedView {
    id: String,
    pid: i32,
}

/// Start a command
///
/// Without `wait`, answers 201 with the id at once. With `wait=true`, answers 200 with the result when the command has ended; if
/// the client leaves before, the command goes on and its result can be asked for.
#[utoipa::path(post, operation_id = "commands_start", path = "/api/v1/sandboxes/{sandbox}/commands", tag = "commands", params(("sandbox" = String, Path), StartQuery),
    request_body = CommandRequest,
    responses((status = 201, body = StartedView), (status = 200, body = ResultView), (status = "default", body = Problem)))]
pub async fn start(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Query(asked): Query<StartQuery>,
    Json(request): Json<CommandRequest>,
) -> Answer {
    request.check()?;
    let (spec, stdin) = request.into_spec()?;
    let kept = if asked.wait { Kept::Apart } else { Kept::Together };
    let Detached { sandbox, pid, id } = app.work(&who, move |engine| begin(engine, words.sandbox(), &spec, kept)).await?;
    let (end, left) = left_by()?;
    let address = format!("/api/v1/sandboxes/{}/commands/{id}", sandbox.id);
    if !asked.wait {
        if let Some(stdin) = stdin {
            // Goes on for as long as the command reads.
            let app = app.clone();
            tokio::spawn(async move {
                let fed = app.wait(&who, move |engine| feed(engine, &sandbox.id, id, stdin.as_bytes(), &end, Then::Close)).await;
                drop((left, fed));
            });
        }
        let response = reply::json(StatusCode::CREATED, &StartedView { id: id.to_string(), pid })?;
        return Ok(reply::with(response, header::LOCATION, &address));
    }
    let result = app.wait(&who, move |engine| finish(engine, &sandbox.id, id, stdin.as_deref(), &end)).await?;
    drop(left);
    reply::ok(&result)
}

fn begin(engine: &Engine, word: &str, spec: &CommandSpec, kept: Kept) -> Result<Detached, EngineError> {
    limits::check(&Limits {
        timeout: spec.timeout.map(|timeout| Span::from_millis(timeout.as_millis() as u64)),
        ..Limits::none()
    })?;
    let which = selected(engine, word)?;
    let mut entered = engine.lifecycle.enter_for(&which, spec)?;
    if entered.sandbox.details.auto_snapshot {
        match engine.history.snapshot_before_command(&mut entered) {
            Ok(None) => {}
            // The snapshot may have had to stop it.
            Ok(Some(_)) => entered = engine.lifecycle.enter(&which)?,
            // A command may be just what makes room again.
            Err(EngineError::Ground(GroundError::NoRoom { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    engine.lifecycle.exec_detached(entered, spec, kept)
}

/// A pipe of which one end tells by being closed that the other was dropped: its request, with its client.
fn left_by() -> Result<(OwnedFd, OwnedFd), Problem> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| EngineError::io("open", "a pipe", error.into()).into())
}

/// What becomes of a standard input that was given something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Open,
    Close,
}

fn feed(
    engine: &Engine,
    sandbox: &SandboxId,
    id: CommandId,
    bytes: &[u8],
    enough: &OwnedFd,
    then: Then,
) -> Result<(), EngineError> {
    let mut attached = attach(engine, sandbox, id)?;
    give(&mut attached, bytes, enough, then)
}

fn give(attached: &mut Attached, bytes: &[u8], enough: &OwnedFd, then: Then) -> Result<(), EngineError> {
    attached.feed(bytes, enough.as_fd())?;
    if then == Then::Close && !attached.is_over() { attached.close_input() } else { Ok(()) }
}

fn attach(engine: &Engine, sandbox: &SandboxId, id: CommandId) -> Result<Attached, EngineError> {
    engine.lifecycle.attach(&Selector::Id(sandbox.clone()), Some(Chosen::Id(id)), None)
}

/// Waits for it, and tells what came of it.
fn finish(
    engine: &Engine,
    sandbox: &SandboxId,
    id: CommandId,
    stdin: Option<&str>,
    enough: &OwnedFd,
) -> Result<ResultView, EngineError> {
    let mut attached = attach(engine, sandbox, id)?;
    if let Some(stdin) = stdin {
        give(&mut attached, stdin.as_bytes(), enough, Then::Close)?;
    }
    // If its client has left, nobody hears what is answered.
    attached.wait(enough.as_fd())?;
    let exited: Exited = attached.exited()?.clone();
    let mut log = engine.lifecycle.log(&Selector::Id(sandbox.clone()), Some(Chosen::Id(id)))?;
    let (stdout, stderr) = (log.excerpt(Stream::Output, None, MOST_SHOWN)?, log.excerpt(Stream::Errors, None, MOST_SHOWN)?);
    Ok(ResultView {
        id: id.to_string(),
        exit_code: exited.code,
        signal: exited.signal,
        timed_out: exited.timed_out,
        limit_hit: exited.limit_hit,
        usage: exited.usage,
        truncated: stdout.start > 0 || stderr.start > 0,
        stdout: text(&stdout),
        stderr: text(&stderr),
    })
}

fn text(excerpt: &Excerpt) -> String {
    String::from_utf8_lossy(&excerpt.bytes).into_owned()
}

#[derive(Debug, Serialize, ToSchema)]
pub struct CommandList {
    commands: Vec<CommandView>,
}

/// List the commands of a sandbox, oldest first
///
/// Of those that ended, the latest are kept.
#[utoipa::path(get, operation_id = "commands_list", path = "/api/v1/sandboxes/{sandbox}/commands", tag = "commands", params(("sandbox" = String, Path)),
    responses((status = 200, body = CommandList), (status = "default", body = Problem)))]
pub async fn list(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let known = app.work(&who, move |engine| engine.lifecycle.background(&selected(engine, words.sandbox())?)).await?;
    reply::ok(&CommandList { commands: known.into_iter().map(Into::into).collect() })
}

/// Show a command
#[utoipa::path(get, operation_id = "commands_show", path = "/api/v1/sandboxes/{sandbox}/commands/{command}", tag = "commands",
    params(("sandbox" = String, Path), ("command" = String, Path)),
    responses((status = 200, body = CommandView), (status = "default", body = Problem)))]
pub async fn show(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let known = app.work(&who, move |engine| {
        let (which, id) = command(engine, &words)?;
        engine.lifecycle.background_command(&which, id)
    });
    reply::ok(&CommandView::from(known.await?))
}

/// A command of a sandbox by its id; there is none by another word.
fn command(engine: &Engine, words: &Words) -> Result<(Selector, CommandId), EngineError> {
    let sandbox = crate::app::named(engine, words.sandbox())?;
    match words.get("command").parse() {
        Ok(id) => Ok((Selector::from(&sandbox), id)),
        Err(_) => Err(LifecycleError::NoLog { sandbox: sandbox.name, chosen: None }.into()),
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct OutputQuery {
    /// Where to begin, as `next` of an earlier answer
    offset: Option<u64>,
    /// Only the last so many bytes
    tail: Option<u64>,
    /// At most so many bytes
    #[param(minimum = 1, maximum = 4194304)]
    limit: Option<usize>,
    /// `stdout` (the default) or `stderr`, which is apart if the command was waited for
    stream: Option<String>,
    /// The bytes as they are, with `Whatif-Start`, `Whatif-Next` and `Whatif-End`
    raw: bool,
}

/// A part of what a command wrote
#[derive(Debug, Serialize, ToSchema)]
pub struct OutputView {
    id: String,
    /// Where it begins; after `offset` if what came before is not kept any more
    start: u64,
    /// The offset to go on with
    next: u64,
    /// Where the output ends so far
    end: u64,
    /// Bytes that are not UTF-8 are replaced
    output: String,
}

/// Read what a command wrote
#[utoipa::path(get, operation_id = "commands_output", path = "/api/v1/sandboxes/{sandbox}/commands/{command}/output", tag = "commands",
    params(("sandbox" = String, Path), ("command" = String, Path), OutputQuery),
    responses((status = 200, content((OutputView = "application/json"), (String = "application/octet-stream"))), (status = "default", body = Problem)))]
pub async fn output(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Query(asked): Query<OutputQuery>,
) -> Answer {
    let stream = match asked.stream.as_deref() {
        None | Some("stdout") => Stream::Output,
        Some("stderr") => Stream::Errors,
        Some(_) => return Err(Problem::field("stream", "is 'stdout' or 'stderr'")),
    };
    if asked.offset.is_some() && asked.tail.is_some() {
        return Err(Problem::field("tail", "cannot be asked for together with 'offset'"));
    }
    let limit = asked.limit.unwrap_or(USUAL_PART);
    if !(1..=LARGEST_PART).contains(&limit) {
        return Err(Problem::field("limit", format!("must be 1 to {LARGEST_PART}")));
    }
    let (from, most) = match asked.tail {
        Some(tail) => (None, limit.min(usize::try_from(tail).unwrap_or(usize::MAX))),
        None => (Some(asked.offset.unwrap_or(0)), limit),
    };
    let read = app.work(&who, move |engine| {
        let (which, id) = command(engine, &words)?;
        Ok((id, engine.lifecycle.log(&which, Some(Chosen::Id(id)))?.excerpt(stream, from, most)?))
    });
    let (id, part) = read.await?;
    if !asked.raw {
        return reply::ok(&OutputView {
            id: id.to_string(),
            start: part.start,
            next: part.next,
            end: part.end,
            output: text(&part),
        });
    }
    let places = [("whatif-start", part.start), ("whatif-next", part.next), ("whatif-end", part.end)];
    let response = reply::bytes_of(StatusCode::OK, "application/octet-stream", part.bytes);
    Ok(places
        .into_iter()
        .fold(response, |response, (name, place)| reply::with(response, HeaderName::from_static(name), &place.to_string())))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// Such as `TERM` or `SIGTERM`
    signal: String,
}

/// Send a signal to a command and what it started
#[utoipa::path(post, operation_id = "commands_signal", path = "/api/v1/sandboxes/{sandbox}/commands/{command}/signal", tag = "commands",
    params(("sandbox" = String, Path), ("command" = String, Path)), request_body = SignalRequest,
    responses((status = 204, description = "It was sent"), (status = "default", body = Problem)))]
pub async fn signal(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<SignalRequest>,
) -> Answer {
    let number =
        signal_called(&asked.signal).ok_or_else(|| Problem::field("signal", "is not the name of a signal, such as TERM"))?;
    app.work(&who, move |engine| {
        let (which, id) = command(engine, &words)?;
        engine.lifecycle.kill(&which, Chosen::Id(id), number)
    })
    .await?;
    reply::nothing()
}

fn signal_called(name: &str) -> Option<i32> {
    use rustix::process::Signal;
    let signal = match name.strip_prefix("SIG").unwrap_or(name) {
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "KILL" => Signal::KILL,
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "ALRM" => Signal::ALARM,
        "TERM" => Signal::TERM,
        "CONT" => Signal::CONT,
        "STOP" => Signal::STOP,
        "TSTP" => Signal::TSTP,
        "WINCH" => Signal::WINCH,
        _ => return None,
    };
    Some(signal.as_raw())
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputRequest {
    #[serde(default)]
    data: String,
    /// Whether its standard input ends after that
    #[serde(default)]
    close: bool,
}

/// Give a command input that was started with `keep_stdin`
///
/// Answers when the command has room for all of it.
#[utoipa::path(post, operation_id = "commands_input", path = "/api/v1/sandboxes/{sandbox}/commands/{command}/input", tag = "commands",
    params(("sandbox" = String, Path), ("command" = String, Path)), request_body = InputRequest,
    responses((status = 204, description = "It was given"), (status = "default", body = Problem)))]
pub async fn input(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<InputRequest>,
) -> Answer {
    let known = app.work(&who, move |engine| {
        let (which, id) = command(engine, &words)?;
        Ok((engine.lifecycle.find(&which)?.id, engine.lifecycle.background_command(&which, id)?))
    });
    let (sandbox, known) = known.await?;
    if !known.takes_input {
        let problem = Problem::new(StatusCode::CONFLICT, "takes_no_input", format!("command {} takes no input", known.id));
        return Err(problem.hint("start it with keep_stdin"));
    }
    let (end, left) = left_by()?;
    let then = if asked.close { Then::Close } else { Then::Open };
    app.wait(&who, move |engine| feed(engine, &sandbox, known.id, asked.data.as_bytes(), &end, then)).await?;
    drop(left);
    reply::nothing()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_usual_names() {
        assert_eq!((signal_called("TERM"), signal_called("SIGKILL")), (Some(15), Some(9)));
        assert_eq!((signal_called("term"), signal_called("15"), signal_called("SIGSIGTERM")), (None, None, None));
    }
}
