//! What a keeper that shares the host's kernel does to itself: `join` before and `confine` after the sandbox's view is put together.
//!
//! Nothing here runs outside. Who started the keeper, and how it is ended, is the provider's.

mod confine;
mod join;
pub mod network;

pub use self::confine::{Confinement, confine};
pub use self::join::{Prepared, bound_own_namespace, enter_user_namespace, join, join_user_namespace, make_network};
pub use whatif_sys::landlock::Reach;
