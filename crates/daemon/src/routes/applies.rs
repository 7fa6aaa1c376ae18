//! What was made real, and taking it back.

use axum::Extension;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use whatif_engine::changes::ChangesError;
use whatif_engine::changes::gate::{TakenBack, UndoWish};
use whatif_engine::changes::history::Page;
use whatif_engine::changes::undo::UndoRequest;
use whatif_types::Principal;
use whatif_types::timestamp::rfc3339;

use crate::app::Shared;
use crate::extract::{Json, Query, Words};
use crate::problem::Problem;
use crate::reply::{self, Answer};
use crate::routes::changes::{Client, Unattended};

const LARGEST_PAGE: usize = 1000;
const USUAL_PAGE: usize = 100;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AppliesQuery {
    /// The absolute path of a project
    project: Option<String>,
    /// The id of a sandbox, or its name at that time
    sandbox: Option<String>,
    /// At most so many
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next` of the page before
    cursor: Option<String>,
}

/// One apply
#[derive(Debug, Serialize, ToSchema)]
pub struct ApplyPage {
    id: String,
    at: String,
    who: String,
    sandbox: String,
    sandbox_id: String,
    project: String,
    /// How many paths it wrote, of which the first 1000 are named
    files: usize,
    paths: Vec<String>,
    /// The git commit made of it
    commit: Option<String>,
    undo_of: Option<String>,
    undone_by: Option<String>,
    undone_in_part_by: Vec<String>,
}

impl From<Page> for ApplyPage {
    fn from(page: Page) -> Self {
        Self {
            id: page.id,
            at: rfc3339(page.at),
            who: page.who,
            sandbox: page.sandbox,
            sandbox_id: page.sandbox_id,
            project: page.project.to_string_lossy().into_owned(),
            files: page.files,
            paths: page.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
            commit: page.commit,
            undo_of: page.undo_of,
            undone_by: page.undone_by,
            undone_in_part_by: page.parts,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ApplyList {
    applies: Vec<ApplyPage>,
    /// The cursor of the next page
    next: Option<String>,
}

/// List what was made real, newest first
#[utoipa::path(get, operation_id = "applies_list", path = "/api/v1/applies", tag = "applies", params(AppliesQuery),
    responses((status = 200, body = ApplyList), (status = "default", body = Problem)))]
pub async fn list(State(app): State<Shared>, Extension(who): Extension<Principal>, Query(asked): Query<AppliesQuery>) -> Answer {
    let limit = asked.limit.unwrap_or(USUAL_PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::field("limit", format!("must be 1 to {LARGEST_PAGE}")));
    }
    let mut pages = app.work(&who, |engine| engine.changes.history()).await?;
    // After the last one of the page before, whether that is still there or not.
    if let Some(cursor) = &asked.cursor {
        let (at, id) = cursor.split_once('-').ok_or_else(unknown_cursor)?;
        let at: u64 = at.parse().map_err(|_| unknown_cursor())?;
        pages.retain(|page| (page.at, page.id.as_str()) < (at, id));
    }
    pages.retain(|page| asked.project.as_ref().is_none_or(|project| page.project.as_os_str() == project.as_str()));
    pages.retain(|page| asked.sandbox.as_ref().is_none_or(|sandbox| page.sandbox == *sandbox || page.sandbox_id == *sandbox));
    let has_more = pages.len() > limit;
    pages.truncate(limit);
    let next = pages.last().filter(|_| has_more).map(|page| format!("{}-{}", page.at, page.id));
    reply::ok(&ApplyList { applies: pages.into_iter().map(Into::into).collect(), next })
}

fn unknown_cursor() -> Problem {
    Problem::field("cursor", "is none that a list has given out")
}

/// What is to be taken back
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UndoWishes {
    /// Patterns of paths to restore; all of them if there are none
    files: Vec<String>,
    /// Patterns of paths that stay as they are
    skip: Vec<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct UndoneView {
    /// What was taken back
    apply: String,
    /// The id to undo the undo by
    undo: String,
    restored: Vec<String>,
    skipped: Vec<String>,
    /// Another undo of the same apply may take the rest
    in_part: bool,
    notes: Vec<String>,
}

/// Take an apply back
#[utoipa::path(post, operation_id = "applies_undo", path = "/api/v1/applies/{apply}/undo", tag = "applies", params(("apply" = String, Path)),
    request_body = Option<UndoWishes>, responses((status = 200, body = UndoneView), (status = "default", body = Problem)))]
pub async fn undo(
    State(app): State<Shared>,
    Extension(who): Extension<Principal>,
    words: Words,
    Json(asked): Json<UndoWishes>,
) -> Answer {
    let undone = app.work(&who, move |engine| {
        let id = words.get("apply").to_owned();
        // The beginning of an id, which a person may type, is not enough here.
        let page = engine.changes.history()?.into_iter().find(|page| page.id == id).ok_or(ChangesError::NoSuchApply { id })?;
        let request = UndoRequest { id: Some(page.id), files: asked.files, skip: asked.skip };
        let mut client = Client::default();
        match engine.changes.take_back(&UndoWish { request, is_approved: true }, &mut client, &mut Unattended)? {
            TakenBack::Undone(undone) => {
                let shown = |paths: &[std::path::PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
                let prepared = &undone.prepared;
                Ok(UndoneView {
                    apply: prepared.page.id.clone(),
                    undo: prepared.id.clone(),
                    restored: shown(&prepared.paths),
                    skipped: shown(&prepared.skipped),
                    in_part: prepared.is_in_part,
                    notes: client.notes.into_iter().chain(undone.notes.iter().cloned()).collect(),
                })
            }
            TakenBack::Declined => Err(ChangesError::NotApproved { undo: None }.into()),
        }
    });
    reply::ok(&undone.await?)
}
