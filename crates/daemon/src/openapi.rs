//! The description of the API, made from the routes themselves. `docs/openapi.json` is a copy that a test keeps true.

use axum::http::StatusCode;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi};
use utoipa::{Modify, OpenApi as _};

use crate::reply::{self, Answer};
use crate::routes::{
    applies, changes, commands, drift, events, files, health, machine, network, races, sandboxes, snapshots, templates, upkeep,
    usage,
};

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "whatif", description = "Sandboxes of one user: run commands in a copy-on-write clone of the real environment, see what changed, make the approved part real, take it back.", license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")),
    security(("token" = [])),
    modifiers(&Token),
    paths(
        health::health, health::ready, health::metrics,
        sandboxes::list, sandboxes::create, sandboxes::show, sandboxes::alter, sandboxes::remove, sandboxes::start, sandboxes::stop, sandboxes::fork, sandboxes::reject,
        commands::list, commands::start, commands::show, commands::output, commands::signal, commands::input,
        files::list, files::stat, files::read, files::write, files::remove, files::make_directories, files::rename,
        changes::show, changes::patch, changes::compare, changes::apply,
        applies::list, applies::undo,
        events::list, events::audit, events::verify,
        snapshots::list, snapshots::take, snapshots::remove, snapshots::roll_back,
        drift::show, drift::rebase,
        usage::stats, usage::processes,
        network::show, network::allow, network::deny,
        templates::list, templates::save, templates::remove,
        races::list, races::show,
        upkeep::preview, upkeep::run,
        machine::config, machine::providers,
    ),
)]
struct Described;

/// Every route but those of `/health` and `/ready` wants it.
struct Token;

impl Modify for Token {
    fn modify(&self, openapi: &mut OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("The content of the token file")).build();
        openapi.components.get_or_insert_with(Components::new).add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// The description of this API, in OpenAPI 3.1.
pub fn description() -> OpenApi {
    Described::openapi()
}

pub async fn serve() -> Answer {
    reply::json(StatusCode::OK, &description())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: &str = "../../docs/openapi.json";

    #[test]
    fn the_copy_in_docs_is_up_to_date() {
        let made = description().to_pretty_json().unwrap() + "\n";
        if std::env::var_os("WHATIF_OPENAPI").is_some_and(|wish| wish == "write") {
            std::fs::write(COPY, &made).unwrap();
        }
        let copy = std::fs::read_to_string(COPY).unwrap_or_default();
        assert!(
            copy == made,
            "docs/openapi.json is not up to date: WHATIF_OPENAPI=write cargo test --package whatif-daemon openapi"
        );
    }

    #[test]
    fn it_is_openapi_3_1_and_every_operation_has_a_name_of_its_own() {
        let told = serde_json::to_value(description()).unwrap();
        assert!(told["openapi"].as_str().unwrap().starts_with("3.1"));
        let mut names = Vec::new();
        for operations in told["paths"].as_object().unwrap().values() {
            names.extend(
                operations.as_object().unwrap().values().map(|operation| operation["operationId"].as_str().unwrap().to_owned()),
            );
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
