//! `whatif review`: deciding about a change set on a terminal, file by file and hunk by hunk.
//!
//! `app` is the state and knows no terminal; `draw` shows it; `session` joins them with a terminal and the engine.

mod app;
mod counts;
mod deciding;
mod decisions;
mod document;
mod draw;
mod facts;
mod implied;
mod keys;
mod layout;
mod list;
mod mouse;
mod notes;
mod prompt;
#[cfg(test)]
mod sample;
mod screen;
mod search;
mod session;
mod theme;
mod told;
mod travel;
mod tree;
mod viewer;
mod wrap;

pub use app::App;
pub use session::{End, run};
pub use theme::Theme;
pub use told::document;
