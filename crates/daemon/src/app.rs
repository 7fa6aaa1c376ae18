//! What all requests share, and how they reach the engine: on threads that may wait, so many at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use whatif_client::chores::InBackground;
use whatif_engine::ground::events::EventsMark;
use whatif_engine::{Caller, Engine, EngineError};
use whatif_sys::children;
use whatif_types::{Principal, Sandbox, Selector};

use crate::access::Access;
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::problem::Problem;
use crate::token::Token;

/// So much is done in the engine at once. Most of it is work for processors and disks.
const AT_ONCE: usize = 32;
/// So many commands are waited for at once.
const WAITS: usize = 512;
/// Other requests wait for their turn for so long.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for what a killed command left, in milliseconds.
const RECOVERY: u64 = 1000;

#[derive(Debug)]
pub struct App {
    engine: Engine,
    chores: Arc<InBackground>,
    pub access: Access,
    pub metrics: Metrics,
    pub feed: Feed,
    work: Arc<Semaphore>,
    waits: Arc<Semaphore>,
    began: Instant,
    /// Milliseconds since then.
    recovered: AtomicU64,
}

pub type Shared = Arc<App>;

impl App {
    #[must_use]
    pub fn new(engine: Engine, chores: Arc<InBackground>, token: Token, address: SocketAddr) -> Self {
        Self {
            engine,
            chores,
            access: Access::new(token, address),
            metrics: Metrics::default(),
            feed: Feed::default(),
            work: Arc::new(Semaphore::new(AT_ONCE)),
            waits: Arc::new(Semaphore::new(WAITS)),
            began: Instant::now(),
            recovered: AtomicU64::new(0),
        }
    }

    /// One call of the engine for somebody. It comes to its end, whether or not its client stays.
    pub async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        who: &Principal,
        call: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.on_a_thread(&self.work, who, move |engine| engine.ground.call(|| call(engine)).map_err(Problem::from)).await
    }

    /// The same for what may be refused for other reasons.
    pub async fn answer<T: Send + 'static>(
        self: &Arc<Self>,
        who: &Principal,
        call: impl FnOnce(&Engine) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.on_a_thread(&self.work, who, call).await
    }

    /// The same for what waits for something inside, and takes nobody's place meanwhile.
    pub async fn wait<T: Send + 'static>(
        self: &Arc<Self>,
        who: &Principal,
        call: impl FnOnce(&Engine) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<T, Problem> {
        self.on_a_thread(&self.waits, who, move |engine| engine.ground.call(|| call(engine)).map_err(Problem::from)).await
    }

    /// Changes with each event.
    pub async fn events_mark(self: &Arc<Self>) -> Option<EventsMark> {
        let app = self.clone();
        tokio::task::spawn_blocking(move || app.engine.ground.events_mark().ok()).await.ok().flatten()
    }

    async fn on_a_thread<T: Send + 'static>(
        self: &Arc<Self>,
        turns: &Arc<Semaphore>,
        who: &Principal,
        call: impl FnOnce(&Engine) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(Ok(turn)) = timeout(PATIENCE, turns.clone().acquire_owned()).await else { return Err(Problem::busy()) };
        let (app, caller) = (self.clone(), self.caller(who));
        let done = tokio::task::spawn_blocking(move || app.called(caller, turn, call)).await;
        done.unwrap_or_else(|_| Err(Problem::internal("the request failed in an unexpected way")))
    }

    fn called<T>(
        &self,
        caller: Caller,
        _turn: OwnedSemaphorePermit,
        call: impl FnOnce(&Engine) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let engine = self.engine.asked_by(caller);
        self.recover_if_due(&engine)?;
        let done = call(&engine);
        engine.upkeep.tidy_if_due();
        self.chores.start_the_rest();
        children::collect();
        done
    }

    /// As every command does before its own work.
    fn recover_if_due(&self, engine: &Engine) -> Result<(), EngineError> {
        let now = self.began.elapsed().as_millis() as u64;
        let last = self.recovered.load(Ordering::Relaxed);
        let is_due = now.saturating_sub(last) >= RECOVERY;
        if is_due && self.recovered.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            engine.upkeep.recover()?;
        }
        Ok(())
    }

    /// Whoever asks over HTTP is in no directory.
    fn caller(&self, who: &Principal) -> Caller {
        let via = match who {
            Principal::Token { .. } => "http",
            Principal::User { .. } => "socket",
        };
        Caller { principal: who.clone(), via, cwd: "/".into(), ..self.engine.caller().clone() }
    }
}

/// The sandbox with this name or id. The beginning of an id, which a person may type, is not enough here.
pub fn named(engine: &Engine, word: &str) -> Result<Sandbox, EngineError> {
    let sandbox = engine.lifecycle.find(&word.into())?;
    match sandbox.name == word || sandbox.id.as_str() == word {
        true => Ok(sandbox),
        false => Err(whatif_engine::ground::GroundError::NoSuchSandbox { name: word.to_owned() }.into()),
    }
}

/// The same, to be passed on.
pub fn selected(engine: &Engine, word: &str) -> Result<Selector, EngineError> {
    Ok(Selector::from(&named(engine, word)?))
}

/// The same caller in a project, where patterns of paths count from.
#[must_use]
pub fn within(engine: &Engine, sandbox: &Sandbox) -> Engine {
    engine.asked_by(Caller { cwd: sandbox.project.clone(), ..engine.caller().clone() })
}
