//! Files of a sandbox, as processes inside see them. Nothing here is a path of the host.

mod ranges;
mod streams;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};
use whatif_engine::EngineError;
use whatif_engine::lifecycle::copy::Replace;
use whatif_engine::lifecycle::files::{Condition, EntryKind, FileStat, Files, Text};
use whatif_types::Principal;
use whatif_types::timestamp::rfc3339;

use self::ranges::{Wanted, wanted};
use self::streams::{Arriving, Pieces, arrive};
use crate::app::{Shared, selected};
use crate::extract::{At, Json, Query, Words};
use crate::problem::Problem;
use crate::reply::{self, Answer, tag};

const USUAL_PAGE: u32 = 1000;
const LARGEST_PAGE: u32 = 10_000;
/// Read at a time.
const PIECE: u64 = 256 << 10;
/// Pieces that wait for a slow client.
const AHEAD: usize = 4;

/// A file, a directory, a link
#[derive(Debug, Serialize, ToSchema)]
pub struct FileView {
    /// `file`, `directory`, `link` or `other`
    kind: &'static str,
    /// In octal
    mode: String,
    size: u64,
    uid: u32,
    gid: u32,
    modified: String,
    /// Another one after every change; the ETag
    version: String,
    /// Where a link leads; a list of bytes if it is not UTF-8
    #[schema(value_type = Option<serde_json::Value>)]
    link: Option<Text>,
}

impl From<FileStat> for FileView {
    fn from(stat: FileStat) -> Self {
        let (seconds, nanoseconds) = stat.modified;
        let modified = u64::try_from(seconds).unwrap_or(0).saturating_mul(1000) + u64::from(nanoseconds / 1_000_000);
        Self {
            kind: kind(stat.kind),
            mode: format!("{:04o}", stat.mode & 0o7777),
            size: stat.size,
            uid: stat.uid,
            gid: stat.gid,
            modified: rfc3339(modified),
            version: stat.version,
            link: stat.link,
        }
    }
}

fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Link => "link",
        EntryKind::Other => "other",
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PathQuery {
    /// Relative to where the sandbox was made, unless it is absolute; bytes that are not UTF-8 are escaped, as in `%ff`
    #[allow(dead_code, reason = "its bytes are read by `At`")]
    path: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    #[allow(dead_code, reason = "its bytes are read by `At`")]
    path: String,
    /// At most so many
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u32>,
    /// `next` of the page before
    cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Entry {
    /// A list of bytes if it is not UTF-8
    #[schema(value_type = serde_json::Value)]
    name: Text,
    #[serde(flatten)]
    about: FileView,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Directory {
    /// In the order of the bytes of their names
    entries: Vec<Entry>,
    /// The cursor of the next page
    next: Option<String>,
}

/// The name of the last entry of a page, in digits: names need not be UTF-8.
fn cursor_of(name: &Text) -> String {
    name.to_path().as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name_of(cursor: &str) -> Result<Text, Problem> {
    let digits = |at: usize| cursor.get(at..at + 2).and_then(|two| u8::from_str_radix(two, 16).ok());
    let bytes: Option<Vec<u8>> = (0..cursor.len()).step_by(2).map(digits).collect();
    let bytes = bytes.filter(|bytes| !bytes.is_empty() && !bytes.contains(&0));
    let bytes = bytes.ok_or_else(|| Problem::field("cursor", "is none that a list has given out"))?;
    Ok(Text::from(Path::new(OsStr::from_bytes(&bytes))))
}

/// List a directory
#[utoipa::path(get, operation_id = "files_list", path = "/api/v1/sandboxes/{sandbox}/files", tag = "files", params(("sandbox" = String, Path), ListQuery),
    responses((status = 200, body = Directory), (status = "default", body = Problem)))]
pub async fn list(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    At(path): At,
    Query(asked): Query<ListQuery>,
) -> Answer {
    let limit = asked.limit.unwrap_or(USUAL_PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::field("limit", format!("must be 1 to {LARGEST_PAGE}")));
    }
    let cursor = asked.cursor.as_deref().map(name_of).transpose()?;
    let page = app.work(&who, move |engine| {
        let mut files = engine.lifecycle.files(&selected(engine, words.sandbox())?)?;
        files.list(&path, cursor.as_ref(), limit)
    });
    let page = page.await?;
    let entries = page.entries.into_iter().map(|entry| Entry { name: entry.name, about: entry.stat.into() });
    reply::ok(&Directory { entries: entries.collect(), next: page.next.as_ref().map(cursor_of) })
}

/// Show what is at a path
#[utoipa::path(get, operation_id = "files_stat", path = "/api/v1/sandboxes/{sandbox}/files/stat", tag = "files", params(("sandbox" = String, Path), PathQuery),
    responses((status = 200, body = FileView), (status = "default", body = Problem)))]
pub async fn stat(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    At(path): At,
    Query(PathQuery { .. }): Query<PathQuery>,
) -> Answer {
    let found = app.work(&who, move |engine| engine.lifecycle.files(&selected(engine, words.sandbox())?)?.stat(&path));
    let view = FileView::from(found.await?);
    Ok(reply::with(reply::ok(&view)?, header::ETAG, &tag(&view.version)))
}

/// Read a file
///
/// Links are followed. With `Range: bytes=…`, a part of it; with `If-Range` as well, only if the file still has that ETag.
#[utoipa::path(get, operation_id = "files_read", path = "/api/v1/sandboxes/{sandbox}/files/content", tag = "files",
    params(("sandbox" = String, Path), PathQuery, ("Range" = Option<String>, Header), ("If-Range" = Option<String>, Header)),
    responses((status = 200, body = String, content_type = "application/octet-stream"),
        (status = 206, body = String, content_type = "application/octet-stream"), (status = "default", body = Problem)))]
pub async fn read(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    At(path): At,
    Query(PathQuery { .. }): Query<PathQuery>,
    headers: HeaderMap,
) -> Answer {
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok()).map(str::to_owned);
    let only_of = headers.get(header::IF_RANGE).map(|version| version.as_bytes().to_owned());
    let (head, mut began) = mpsc::channel::<Result<_, Problem>>(1);
    let (pieces, body) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let refused = head.clone();
        let sent = app.wait(&who, move |engine| {
            let mut files = engine.lifecycle.files(&selected(engine, words.sandbox())?)?;
            let path = path.as_path();
            let stat = files.stat_target(path)?;
            let range = range.filter(|_| only_of.is_none_or(|version| version == tag(&stat.version).as_bytes()));
            let wanted = wanted(range.as_deref(), stat.size);
            if stat.kind != EntryKind::File {
                // The engine says best what is wrong with what is no file.
                files.read(path, 0, 1, None)?;
            }
            let (start, end) = wanted.bounds(stat.size);
            // A client that has left needs neither.
            let _ = head.blocking_send(Ok((stat.clone(), wanted)));
            Ok(send(&mut files, path, (start, end), &stat.version, &pieces))
        });
        if let Err(problem) = sent.await {
            let _ = refused.send(Err(problem)).await;
        }
    });
    let (stat, wanted) = match began.recv().await {
        Some(began) => began?,
        None => return Err(Problem::internal("the file could not be read")),
    };
    let (start, end) = wanted.bounds(stat.size);
    let response = match wanted {
        Wanted::Nothing => {
            let problem =
                Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "invalid_range", format!("the file has {} bytes", stat.size));
            let response = axum::response::IntoResponse::into_response(problem);
            return Ok(reply::with(response, header::CONTENT_RANGE, &format!("bytes */{}", stat.size)));
        }
        Wanted::Whole => reply::bytes_of(StatusCode::OK, "application/octet-stream", Body::new(Pieces(body))),
        Wanted::Part { .. } => {
            let response = reply::bytes_of(StatusCode::PARTIAL_CONTENT, "application/octet-stream", Body::new(Pieces(body)));
            reply::with(response, header::CONTENT_RANGE, &format!("bytes {start}-{}/{}", end.saturating_sub(1), stat.size))
        }
    };
    let response = reply::with(response, header::CONTENT_LENGTH, &(end - start).to_string());
    let response = reply::with(response, header::ACCEPT_RANGES, "bytes");
    Ok(reply::with(response, header::ETAG, &tag(&stat.version)))
}

/// Of one version: if the file changes meanwhile, the client sees a body that breaks off, not a mixture.
fn send(
    files: &mut Files,
    path: &Path,
    bounds: (u64, u64),
    version: &str,
    to: &mpsc::Sender<Result<bytes::Bytes, EngineError>>,
) -> Option<()> {
    let (mut at, end) = bounds;
    while at < end {
        let read = files.read(path, at, PIECE.min(end - at), Some(version));
        let is_over = read.as_ref().map_or(true, |range| range.bytes.is_empty());
        at += read.as_ref().map_or(0, |range| range.bytes.len() as u64);
        to.blocking_send(read.map(|range| range.bytes.into())).ok()?;
        if is_over {
            break;
        }
    }
    Some(())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WriteQuery {
    #[allow(dead_code, reason = "its bytes are read by `At`")]
    path: String,
    /// In octal, such as `0644`; by default that of the file which is replaced
    mode: Option<String>,
}

/// Write a file
///
/// All of the body becomes the file, or nothing of it. `If-Match` writes only over that version, `If-None-Match: *` only where
/// nothing is.
#[utoipa::path(put, operation_id = "files_write", path = "/api/v1/sandboxes/{sandbox}/files/content", tag = "files",
    params(("sandbox" = String, Path), WriteQuery, ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, body = FileView), (status = "default", body = Problem)))]
pub async fn write(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    At(path): At,
    Query(asked): Query<WriteQuery>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    check_names_no_directory(&path)?;
    let mode = asked.mode.as_deref().map(octal).transpose()?;
    let condition = match (version(&headers, header::IF_MATCH)?, headers.get(header::IF_NONE_MATCH)) {
        (Some(version), None) => Condition::IsVersion(version),
        (None, Some(any)) if any == "*" => Condition::IsAbsent,
        (None, None) => Condition::Always,
        _ => return Err(Problem::field("If-None-Match", "is '*', and not together with If-Match")),
    };
    let (pieces, mut arriving) = Arriving::new(AHEAD);
    let written = app.wait(&who, move |engine| {
        let mut files = engine.lifecycle.files(&selected(engine, words.sandbox())?)?;
        files.write(&path, mode, condition, &mut arriving)
    });
    let ((), written) = tokio::join!(arrive(body, pieces), written);
    let view = FileView::from(written.map_err(when_conditional)?);
    Ok(reply::with(reply::ok(&view)?, header::ETAG, &tag(&view.version)))
}

/// What stands against a condition that the request itself made.
fn when_conditional(problem: Problem) -> Problem {
    match problem.code.as_str() {
        "file_changed" => problem.with_status(StatusCode::PRECONDITION_FAILED),
        _ => problem,
    }
}

/// Bits that let programs run with the rights of others are none that a file gets from outside.
fn octal(text: &str) -> Result<u32, Problem> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && text.bytes().all(|byte| byte.is_ascii_digit()));
    mode.ok_or_else(|| Problem::field("mode", "is written in octal, from 0000 to 0777"))
}

/// `name/` and `name/.` can only be directories.
fn check_names_no_directory(path: &Path) -> Result<(), Problem> {
    let bytes = path.as_os_str().as_bytes();
    match bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
        true => Err(Problem::field("path", "names a directory; leave out what is behind the last name")),
        false => Ok(()),
    }
}

fn version(headers: &HeaderMap, name: header::HeaderName) -> Result<Option<String>, Problem> {
    let Some(sent) = headers.get(&name) else { return Ok(None) };
    let tag = sent.to_str().ok().and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
    tag.map(|tag| Some(tag.to_owned())).ok_or_else(|| Problem::field(name.as_str(), "is the ETag of a file"))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RemoveQuery {
    #[allow(dead_code, reason = "its bytes are read by `At`")]
    path: String,
    /// With all that is in a directory
    #[serde(default)]
    recursive: bool,
}

/// Delete a file, a link or a directory
#[utoipa::path(delete, operation_id = "files_remove", path = "/api/v1/sandboxes/{sandbox}/files", tag = "files",
    params(("sandbox" = String, Path), RemoveQuery, ("If-Match" = Option<String>, Header)),
    responses((status = 204, description = "It is gone"), (status = "default", body = Problem)))]
pub async fn remove(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    At(path): At,
    Query(asked): Query<RemoveQuery>,
    headers: HeaderMap,
) -> Answer {
    check_names_no_directory(&path)?;
    let version = version(&headers, header::IF_MATCH)?;
    let removed = app.work(&who, move |engine| {
        let mut files = engine.lifecycle.files(&selected(engine, words.sandbox())?)?;
        match asked.recursive {
            true => files.delete_tree(&path, version.as_deref()),
            false => files.delete(&path, version.as_deref()),
        }
    });
    removed.await.map_err(when_conditional)?;
    reply::nothing()
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectoryRequest {
    /// A list of bytes if it is not UTF-8
    #[schema(value_type = serde_json::Value)]
    path: Text,
    /// In octal; `0755` by default
    mode: Option<String>,
}

/// Make a directory, with those above it that are missing
///
/// One that is there is no error.
#[utoipa::path(post, operation_id = "files_make_directories", path = "/api/v1/sandboxes/{sandbox}/files/directories", tag = "files", params(("sandbox" = String, Path)),
    request_body = DirectoryRequest, responses((status = 204, description = "It is there"), (status = "default", body = Problem)))]
pub async fn make_directories(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<DirectoryRequest>,
) -> Answer {
    let mode = asked.mode.as_deref().map_or(Ok(0o755), octal)?;
    app.work(&who, move |engine| {
        engine.lifecycle.files(&selected(engine, words.sandbox())?)?.make_directories(&asked.path.to_path(), mode)
    })
    .await?;
    reply::nothing()
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// A list of bytes if it is not UTF-8
    #[schema(value_type = serde_json::Value)]
    from: Text,
    #[schema(value_type = serde_json::Value)]
    to: Text,
    /// Take the place of what is there
    #[serde(default)]
    replace: bool,
}

/// Move a file or directory
#[utoipa::path(post, operation_id = "files_rename", path = "/api/v1/sandboxes/{sandbox}/files/move", tag = "files", params(("sandbox" = String, Path)),
    request_body = MoveRequest, responses((status = 204, description = "It was moved"), (status = "default", body = Problem)))]
pub async fn rename(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<MoveRequest>,
) -> Answer {
    let replace = if asked.replace { Replace::Anything } else { Replace::Never };
    app.work(&who, move |engine| {
        let mut files = engine.lifecycle.files(&selected(engine, words.sandbox())?)?;
        files.move_to(&asked.from.to_path(), &asked.to.to_path(), replace)
    })
    .await?;
    reply::nothing()
}
