//! What a sandbox changed, and making it real.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use whatif_engine::changes::ChangesError;
use whatif_engine::changes::apply::{ApplyRequest, Progress, applied_document, nothing_document, plan_document};
use whatif_engine::changes::checks::CheckResult;
use whatif_engine::changes::diff::{Diff, Subject, write_patch};
use whatif_engine::changes::gate::{ApplyWish, Approver, Follower, Made, Question};
use whatif_engine::{Change, Depth, Engine, EngineError};
use whatif_types::{Principal, Selector};

use crate::app::{Shared, named, within};
use crate::extract::{Json, Query, Words};
use crate::once::{Done, Key, once};
use crate::problem::Problem;
use crate::reply::{self, Answer};

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ChangesQuery {
    /// Include what the project ignores
    all: bool,
    /// With the lines of each hunk
    hunks: bool,
}

/// What a sandbox changed; the digest is over all of it
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangesView {
    digest: String,
    #[schema(value_type = Vec<Object>)]
    changes: Vec<Value>,
    #[schema(value_type = Object)]
    stats: Value,
    #[schema(value_type = Object)]
    sandbox: Value,
    /// Where reality moved on under a change
    #[schema(value_type = Vec<Object>)]
    drift: Vec<Value>,
    /// What the project ignores, by directory
    #[schema(value_type = Vec<Object>)]
    collapsed: Vec<Value>,
    #[schema(value_type = Vec<Object>)]
    packages: Vec<Value>,
    /// What could not be read, so that the list is not complete
    #[schema(value_type = Vec<Object>)]
    unreadable: Vec<Value>,
}

/// Show what a sandbox changed
#[utoipa::path(get, operation_id = "changes_show", path = "/api/v1/sandboxes/{sandbox}/changes", tag = "changes", params(("sandbox" = String, Path), ChangesQuery),
    responses((status = 200, body = ChangesView), (status = "default", body = Problem)))]
pub async fn show(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Query(asked): Query<ChangesQuery>,
) -> Answer {
    let document = app.work(&who, move |engine| {
        let sandbox = named(engine, words.sandbox())?;
        let diff = within(engine, &sandbox).changes.diff(&Subject::Sandbox(Selector::from(&sandbox)), Depth::Review)?;
        Ok(told(&diff, asked.all, asked.hunks))
    });
    reply::ok(&view(document.await?)?)
}

fn told(diff: &Diff, all: bool, hunks: bool) -> Result<Value, serde_json::Error> {
    let is_told = |change: &Change| {
        let is_cached = !all && diff.is_in_package_cache(change);
        !is_cached && (all || !change.ignored || change.needs_approval())
    };
    serde_json::to_value(diff.document(is_told, hunks))
}

fn view(document: Result<Value, serde_json::Error>) -> Result<ChangesView, Problem> {
    let mut document = document.map_err(|error| Problem::internal(error.to_string()))?;
    let mut list = |name: &str| match document[name].take() {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    let (changes, drift, collapsed) = (list("changes"), list("drift"), list("collapsed"));
    let (packages, paths, causes) = (list("packages"), list("unreadable"), list("unreadable_because"));
    let unreadable = paths.into_iter().zip(causes).map(|(path, why)| serde_json::json!({ "path": path, "why": why })).collect();
    Ok(ChangesView {
        digest: document["digest"].as_str().unwrap_or_default().to_owned(),
        changes,
        stats: document["stats"].take(),
        sandbox: document["sandbox"].take(),
        drift,
        collapsed,
        packages,
        unreadable,
    })
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct CompareQuery {
    /// The label of a snapshot; without it, reality
    from: Option<String>,
    /// The label of a snapshot; without it, what the sandbox is now
    to: Option<String>,
    /// Include what the project ignores
    all: bool,
    /// With the lines of each hunk
    hunks: bool,
}

/// Show what makes one snapshot of a sandbox of another
///
/// The digest is of this comparison, and nothing can be applied by it.
#[utoipa::path(get, operation_id = "changes_compare", path = "/api/v1/sandboxes/{sandbox}/compare", tag = "changes", params(("sandbox" = String, Path), CompareQuery),
    responses((status = 200, body = ChangesView), (status = "default", body = Problem)))]
pub async fn compare(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Query(asked): Query<CompareQuery>,
) -> Answer {
    let document = app.work(&who, move |engine| {
        let sandbox = named(engine, words.sandbox())?;
        let at = |label: &String| format!("{}@{label}", sandbox.name);
        let to = asked.to.as_ref().map_or_else(|| sandbox.name.clone(), at);
        let subject = Subject::Between(asked.from.as_ref().map(at), Some(to));
        let diff = within(engine, &sandbox).changes.diff(&subject, Depth::Review)?;
        Ok(told(&diff, asked.all, asked.hunks))
    });
    reply::ok(&view(document.await?)?)
}

/// Show the changes in the project as a patch for `git apply --binary`
#[utoipa::path(get, operation_id = "changes_patch", path = "/api/v1/sandboxes/{sandbox}/changes/patch", tag = "changes", params(("sandbox" = String, Path)),
    responses((status = 200, body = String, content_type = "text/x-diff"), (status = "default", body = Problem)))]
pub async fn patch(State(app): State<Shared>, Extension(who): Extension<Principal>, words: Words) -> Answer {
    let patch = app.work(&who, move |engine| {
        let sandbox = named(engine, words.sandbox())?;
        let diff = within(engine, &sandbox).changes.diff(&Subject::Sandbox(Selector::from(&sandbox)), Depth::Listing)?;
        let wanted: Vec<&Change> = diff.set.changes.iter().filter(|c| !c.ignored || c.needs_approval()).collect();
        let mut patch = Vec::new();
        let left_out = write_patch(&mut patch, &wanted, &sandbox.project).map_err(|e| EngineError::io("write", "the patch", e))?;
        match diff.set.unreadable.iter().chain(&left_out.unreadable).find(|unreadable| !unreadable.is_closed()) {
            Some(unreadable) => Err(unreadable.clone().into()),
            None => Ok(patch),
        }
    });
    Ok(reply::bytes_of(StatusCode::OK, "text/x-diff", patch.await?))
}

/// What shall become real
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyWishes {
    /// That of the change set which was looked at
    #[schema(min_length = 1)]
    digest: String,
    /// Approve of everything in the project, also of what is ignored or risky
    #[serde(default)]
    all: bool,
    /// Patterns of paths. Whatever they match counts as approved, also what is risky or ignored: name what you have looked at
    #[serde(default)]
    files: Vec<String>,
    /// Patterns of paths to leave out
    #[serde(default)]
    exclude: Vec<String>,
    /// Include changes that need review because tools on this machine would execute them
    #[serde(default)]
    risky: bool,
    /// Include changes outside the project
    #[serde(default)]
    outside: bool,
    /// Include what the project ignores
    #[serde(default)]
    ignored: bool,
    /// On a conflict, keep reality's version of paths that match
    #[serde(default)]
    ours: Vec<String>,
    /// On a conflict, take the sandbox's version of paths that match
    #[serde(default)]
    theirs: Vec<String>,
    /// Only answer what would be done
    #[serde(default)]
    dry_run: bool,
}

/// What became real, or would
#[derive(Debug, Serialize, ToSchema)]
pub struct ApplyView {
    /// The id to undo it by; null if nothing was written
    apply: Option<String>,
    dry_run: bool,
    #[schema(value_type = Object)]
    report: Value,
    notes: Vec<String>,
    #[schema(value_type = Vec<Object>)]
    checks: Vec<Value>,
}

/// Make changes real
///
/// Refused with 409 if the sandbox has changed since the digest was made, and if reality and the sandbox disagree.
#[utoipa::path(post, operation_id = "changes_apply", path = "/api/v1/sandboxes/{sandbox}/apply", tag = "changes",
    params(("sandbox" = String, Path), ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    request_body = ApplyWishes, responses((status = 200, body = ApplyView), (status = "default", body = Problem)))]
pub async fn apply(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    key: Key,
    Json(asked): Json<ApplyWishes>,
) -> Answer {
    if !asked.all && asked.files.is_empty() {
        return Err(Problem::field("files", "name what to apply, or say 'all'"));
    }
    let done = app.answer(&who, move |engine| match asked.dry_run {
        true => Done::new(StatusCode::OK, &engine.ground.call(|| perform(engine, words.sandbox(), asked))?),
        false => once(engine, &key, "apply", &(words.sandbox(), &asked.clone()), || {
            Done::new(StatusCode::OK, &engine.ground.call(|| perform(engine, words.sandbox(), asked))?)
        }),
    });
    done.await?.into_response(&app)
}

fn perform(engine: &Engine, word: &str, asked: ApplyWishes) -> Result<ApplyView, EngineError> {
    let sandbox = named(engine, word)?;
    let engine = within(engine, &sandbox);
    let request = ApplyRequest {
        files: asked.files,
        exclude: asked.exclude,
        all: asked.all,
        risky: asked.risky,
        outside: asked.outside,
        ignored: asked.ignored,
        ours: asked.ours,
        theirs: asked.theirs,
        digest: Some(asked.digest),
        ..ApplyRequest::of(Selector::from(&sandbox))
    };
    let wish = ApplyWish { request, is_approved: true, is_checked: true, commit: None };
    if asked.dry_run {
        let planned = engine.changes.plan_apply(&wish)?.prepared;
        if !planned.conflicts.is_empty() {
            return Err(ChangesError::conflicts(&planned.sandbox, planned.conflicts.clone()).into());
        }
        let report = plan_document(&planned);
        return Ok(ApplyView { apply: None, dry_run: true, report, notes: planned.notes().to_vec(), checks: Vec::new() });
    }
    let mut client = Client::default();
    let made = engine.changes.make_real(&wish, &mut client, &mut Unattended)?;
    let Client { notes, checks } = client;
    match made {
        Made::Applied(made) => {
            let commit = made.committed.as_ref().and_then(|committed| committed.id.as_deref());
            let report = applied_document(&made.applied, &made.left_out, commit);
            Ok(ApplyView { apply: made.applied.id.clone(), dry_run: false, report, notes, checks })
        }
        Made::Nothing(prepared) => {
            Ok(ApplyView { apply: None, dry_run: false, report: nothing_document(&prepared), notes, checks })
        }
        Made::Conflicts(prepared) => Err(ChangesError::conflicts(&prepared.sandbox, prepared.conflicts.clone()).into()),
        Made::Declined => Err(ChangesError::NotApproved { undo: None }.into()),
    }
}

/// A client of the API has said what it approves of, and can be asked nothing.
#[derive(Debug, Default)]
pub struct Client {
    pub notes: Vec<String>,
    checks: Vec<Value>,
}

impl Approver for Client {
    fn answer(&mut self, _question: Question<'_>) -> Option<bool> {
        None
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn checked(&mut self, result: &CheckResult) {
        let CheckResult { check, exit_code, timed_out, .. } = result;
        self.checks.push(serde_json::json!({ "name": check.name, "exit_code": exit_code, "timed_out": timed_out, "passed": result.has_passed() }));
    }
}

/// Nobody watches a transaction, and nobody stops it.
#[derive(Debug)]
pub struct Unattended;

impl Follower for Unattended {
    fn progress(&mut self, _progress: Progress) {}

    fn pauses(&mut self) {}

    fn commences(&mut self) {}

    fn is_cancelled(&mut self) -> bool {
        false
    }
}
