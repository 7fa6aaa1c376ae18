//! Records in SQLite, in write-ahead mode: readers never wait, and a commit costs no disk flush. `flush` makes them durable.

mod experiments;
mod json;
mod room;
mod snapshots;

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, TransactionBehavior, params};
use whatif_types::experiment::Attempt;
use whatif_types::{Experiment, ExperimentId, LayerFacts, LayerId, Sandbox, SandboxId, Snapshot, SnapshotId, Template};

use self::json::to_json;
use crate::{Found, Inserted, Layers, Origin, Store, StoreError, Witness};

/// Forward-only: entry N turns format N into format N + 1.
const MIGRATIONS: [&str; 4] = [
    "
    CREATE TABLE sandboxes (
        id TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL UNIQUE,
        status TEXT NOT NULL,
        version INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        project BLOB NOT NULL,
        provider TEXT NOT NULL,
        idempotency_key TEXT UNIQUE,
        details TEXT NOT NULL
    ) WITHOUT ROWID;
    PRAGMA user_version = 1;
",
    "
    CREATE TABLE snapshots (
        id TEXT PRIMARY KEY NOT NULL,
        sandbox TEXT NOT NULL,
        label TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        details TEXT NOT NULL,
        UNIQUE (sandbox, label)
    ) WITHOUT ROWID;
    CREATE INDEX snapshots_by_label ON snapshots (label);
    CREATE TABLE templates (name TEXT PRIMARY KEY NOT NULL, created_at INTEGER NOT NULL, details TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE layers (id TEXT PRIMARY KEY NOT NULL, facts TEXT NOT NULL) WITHOUT ROWID;
    PRAGMA user_version = 2;
",
    "
    CREATE TABLE experiments (
        id TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        project BLOB NOT NULL,
        details TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE attempts (
        experiment TEXT NOT NULL,
        number INTEGER NOT NULL,
        details TEXT NOT NULL,
        PRIMARY KEY (experiment, number)
    ) WITHOUT ROWID;
    PRAGMA user_version = 3;
",
    // Every layer that any record names or has named, until it is deleted. Triggers fill it, so no statement can forget to.
    "
    CREATE TABLE known_layers (id TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
    CREATE TRIGGER know_layers_of_new_sandbox AFTER INSERT ON sandboxes BEGIN
        INSERT OR IGNORE INTO known_layers SELECT value FROM json_each(new.details, '$.position.stack');
        INSERT OR IGNORE INTO known_layers SELECT value FROM json_each(new.details, '$.position.mounted');
    END;
    CREATE TRIGGER know_layers_of_sandbox AFTER UPDATE OF details ON sandboxes BEGIN
        INSERT OR IGNORE INTO known_layers SELECT value FROM json_each(new.details, '$.position.stack');
        INSERT OR IGNORE INTO known_layers SELECT value FROM json_each(new.details, '$.position.mounted');
    END;
    CREATE TRIGGER know_layers_of_snapshot AFTER INSERT ON snapshots BEGIN
        INSERT OR IGNORE INTO known_layers SELECT value FROM json_each(new.details, '$.stack');
    END;
    CREATE TRIGGER know_layers_of_template AFTER INSERT ON templates BEGIN
        INSERT OR IGNORE INTO known_layers SELECT value FROM json_each(new.details, '$.details.position.stack');
    END;
    INSERT OR IGNORE INTO known_layers
        SELECT value FROM sandboxes, json_each(sandboxes.details, '$.position.stack')
        UNION SELECT value FROM sandboxes, json_each(sandboxes.details, '$.position.mounted')
        UNION SELECT value FROM snapshots, json_each(snapshots.details, '$.stack')
        UNION SELECT value FROM templates, json_each(templates.details, '$.details.position.stack');
    PRAGMA user_version = 4;
",
];
const COLUMNS: &str = "id, name, status, version, created_at, updated_at, project, provider, details";
/// A command that is the only one reads the whole log when it opens the records.
const LONGEST_LOG: u64 = 96 << 10;
/// Longer than any of our transactions; two commands at once take turns.
const PATIENCE: Duration = Duration::from_secs(10);

/// The records of a state directory. They are opened when they are first needed: many commands have better things to do first.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    connection: OnceCell<Connection>,
    witness: Option<Box<dyn Witness>>,
}

impl SqliteStore {
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, connection: OnceCell::new(), witness: None }
    }

    /// Somebody is told of each sandbox, snapshot and template that is recorded or removed.
    #[must_use]
    pub fn watched_by(self, witness: Box<dyn Witness>) -> Self {
        Self { witness: Some(witness), ..self }
    }

    fn tell(&self, what: impl Fn(&dyn Witness)) {
        if let Some(witness) = &self.witness {
            what(&**witness);
        }
    }

    fn connection(&self) -> Result<&Connection, StoreError> {
        if self.connection.get().is_none() {
            let opened = match open(&self.path) {
                // Looking must be possible where writing is not.
                Err(StoreError::Database(error)) if is_read_only(&error) => open_for_reading(&self.path)?,
                other => other?,
            };
            let _ = self.connection.set(opened);
        }
        self.connection.get().ok_or_else(|| StoreError::Malformed("the records cannot be opened".to_owned()))
    }

    fn query_one(&self, condition: &str, parameter: &str) -> Result<Option<Sandbox>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM sandboxes WHERE {condition}");
        self.connection()?.prepare_cached(&sql)?.query_row([parameter], read).optional()?.transpose()
    }

    /// Does the work while nobody else can write; an error takes all of it back.
    fn in_transaction<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let connection = self.connection()?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let done = work(connection).and_then(|done| {
            connection.execute_batch("COMMIT")?;
            Ok(done)
        });
        if done.is_err() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        done
    }

    /// Where a sandbox stands now: on what must still be recorded, and with a snapshot of what it is or was.
    fn place(&self, sandbox: &mut Sandbox, origin: Option<&Origin<'_>>, snapshot: Option<&Snapshot>) -> Result<(), StoreError> {
        let version = sandbox.version;
        let placed = self.with_room(|| {
            sandbox.version = version;
            self.in_transaction(|connection| {
                origin.map_or(Ok(()), |origin| snapshots::require(connection, origin))?;
                snapshot.map_or(Ok(()), |snapshot| snapshots::insert(connection, snapshot))?;
                self.update(sandbox)
            })
        });
        match (&placed, snapshot) {
            (Ok(()), Some(snapshot)) => self.tell(|w| w.snapshot(snapshot)),
            (Ok(()), None) => {}
            (Err(_), _) => sandbox.version = version,
        }
        placed
    }

    fn log(&self) -> PathBuf {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        PathBuf::from(log)
    }
}

/// Opens the records, making or upgrading them if needed. Two who are the first take turns: SQLite itself does not wait when
/// the way of writing is to be changed.
fn open(path: &Path) -> Result<Connection, StoreError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match open_once(path) {
            Err(StoreError::Database(error)) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(PATIENCE / 2000),
            other => return other,
        }
    }
}

fn open_once(path: &Path) -> Result<Connection, StoreError> {
    // Before SQLite makes it with the modes of the umask. What it cannot be made for, SQLite will say.
    let fresh = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).is_ok();
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    // Flushing and removing the log when the last connection closes would put two disk flushes at the end of every command.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    migrate(&mut connection, path)?;
    room::keep_reserve(path);
    if fresh {
        for suffix in ["", "-wal", "-shm"] {
            let mut file = path.as_os_str().to_owned();
            file.push(suffix);
            let _ = std::fs::set_permissions(file, Permissions::from_mode(0o600));
        }
    }
    Ok(connection)
}

fn open_for_reading(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn is_read_only(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen))
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let known = MIGRATIONS.len() as i64;
    let found: i64 = connection.pragma_query_value(None, "user_version", |r| r.get(0))?;
    if found > known {
        return Err(StoreError::TooNew { path: path.display().to_string(), found, known });
    }
    if found == known {
        return Ok(());
    }
    // Rows are small; so are the pages, and with them the log that the next command has to read through.
    connection.pragma_update(None, "page_size", 1024)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another command may have done it while we waited.
    let found: i64 = transaction.pragma_query_value(None, "user_version", |r| r.get(0))?;
    for migration in &MIGRATIONS[usize::try_from(found).unwrap_or(0)..] {
        transaction.execute_batch(migration)?;
    }
    transaction.commit()?;
    Ok(())
}

impl Store for SqliteStore {
    fn insert(&self, sandbox: &Sandbox, idempotency_key: Option<&str>) -> Result<Inserted, StoreError> {
        self.with_room(|| {
            if let Some(key) = idempotency_key
                && let Some(existing) = self.find_by_key(key)?
            {
                return Ok(Inserted::Existing(Box::new(existing)));
            }
            let details = to_json(&sandbox.details)?;
            let inserted = self
                .connection()?
                .prepare_cached("INSERT INTO sandboxes (id, name, status, version, created_at, updated_at, project, provider, idempotency_key, details) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?
                .execute(params![
                    sandbox.id.as_str(),
                    sandbox.name,
                    sandbox.status.as_str(),
                    sandbox.version as i64,
                    sandbox.created_at as i64,
                    sandbox.updated_at as i64,
                    sandbox.project.as_os_str().as_bytes(),
                    sandbox.provider,
                    idempotency_key,
                    details,
                ]);
            match inserted {
                Ok(_) => {
                    self.tell(|w| w.sandbox(sandbox));
                    Ok(Inserted::New)
                }
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                    // Lost a race for the key, or the name is taken.
                    match idempotency_key.map(|key| self.find_by_key(key)).transpose()?.flatten() {
                        Some(existing) => Ok(Inserted::Existing(Box::new(existing))),
                        None => Err(StoreError::NameTaken { name: sandbox.name.clone() }),
                    }
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    fn get(&self, id: &SandboxId) -> Result<Option<Sandbox>, StoreError> {
        self.with_room(|| self.query_one("id = ?1", id.as_str()))
    }

    fn find_by_key(&self, key: &str) -> Result<Option<Sandbox>, StoreError> {
        self.with_room(|| self.query_one("idempotency_key = ?1", key))
    }

    fn find(&self, name_or_prefix: &str) -> Result<Found, StoreError> {
        self.with_room(|| {
            if let Some(sandbox) = self.query_one("name = ?1", name_or_prefix)? {
                return Ok(Found::One(Box::new(sandbox)));
            }
            let sql = format!("SELECT {COLUMNS} FROM sandboxes WHERE substr(id, 1, length(?1)) = ?1 LIMIT 6");
            let mut statement = self.connection()?.prepare_cached(&sql)?;
            let mut found = statement.query_map([name_or_prefix], read)?.map(|row| row?).collect::<Result<Vec<_>, _>>()?;
            match (found.pop(), found.is_empty()) {
                (Some(only), true) if !name_or_prefix.is_empty() => Ok(Found::One(Box::new(only))),
                (Some(last), _) => Ok(Found::Several(found.into_iter().chain([last]).map(|s| s.name).collect())),
                (None, _) => Ok(Found::None),
            }
        })
    }

    fn list(&self) -> Result<Vec<Sandbox>, StoreError> {
        self.with_room(|| {
            let sql = format!("SELECT {COLUMNS} FROM sandboxes ORDER BY created_at DESC, id");
            let mut statement = self.connection()?.prepare_cached(&sql)?;
            statement.query_map([], read)?.map(|row| row?).collect()
        })
    }

    fn update(&self, sandbox: &mut Sandbox) -> Result<(), StoreError> {
        let changed = self.with_room(|| {
            Ok(self
                .connection()?
                .prepare_cached("UPDATE sandboxes SET name = ?1, status = ?2, version = version + 1, updated_at = ?3, details = ?4 WHERE id = ?5 AND version = ?6")?
                .execute(params![
                    sandbox.name,
                    sandbox.status.as_str(),
                    sandbox.updated_at as i64,
                    to_json(&sandbox.details)?,
                    sandbox.id.as_str(),
                    sandbox.version as i64,
                ])?)
        })?;
        if changed == 0 {
            return Err(StoreError::Conflict { name: sandbox.name.clone() });
        }
        sandbox.version += 1;
        self.tell(|w| w.sandbox(sandbox));
        Ok(())
    }

    fn wants_tidying(&self) -> bool {
        std::fs::metadata(self.log()).is_ok_and(|m| m.len() > LONGEST_LOG)
    }

    fn flush(&self) -> Result<(), StoreError> {
        // A commit is in the log until it is moved to the database, and what is moved is flushed on both sides by SQLite. Not
        // through the connection: this must work in a forked child too.
        let log = self.log();
        match File::open(&log).and_then(|file| file.sync_data()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|source| StoreError::NotFlushed { path: log.display().to_string(), source }),
        }
    }

    fn tidy(&self) -> Result<(), StoreError> {
        // Its row says whether other connections were in the way; then the next command will try again.
        self.connection()?.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    fn delete(&self, id: &SandboxId) -> Result<(), StoreError> {
        self.with_room(|| {
            self.in_transaction(|connection| {
                connection.prepare_cached("DELETE FROM sandboxes WHERE id = ?1")?.execute([id.as_str()])?;
                connection.prepare_cached("DELETE FROM snapshots WHERE sandbox = ?1")?.execute([id.as_str()])?;
                Ok(())
            })
        })
    }

    fn insert_from(&self, sandbox: &Sandbox, origin: &Origin<'_>) -> Result<(), StoreError> {
        self.with_room(|| {
            self.in_transaction(|connection| {
                snapshots::require(connection, origin)?;
                match self.insert(sandbox, None)? {
                    Inserted::New => Ok(()),
                    Inserted::Existing(other) => Err(StoreError::NameTaken { name: other.name }),
                }
            })
        })
    }

    fn insert_snapshot(&self, snapshot: &Snapshot, sandbox: &mut Sandbox) -> Result<(), StoreError> {
        self.place(sandbox, None, Some(snapshot))
    }

    fn move_to(&self, sandbox: &mut Sandbox, origin: &Origin<'_>, before: Option<&Snapshot>) -> Result<(), StoreError> {
        self.place(sandbox, Some(origin), before)
    }

    fn get_snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, StoreError> {
        self.with_room(|| Ok(snapshots::select(self.connection()?, "id = ?1", [id.as_str()])?.pop()))
    }

    fn find_snapshot(&self, sandbox: &SandboxId, label: &str) -> Result<Option<Snapshot>, StoreError> {
        let condition = "sandbox = ?1 AND label = ?2";
        self.with_room(|| Ok(snapshots::select(self.connection()?, condition, [sandbox.as_str(), label])?.pop()))
    }

    fn find_label(&self, label: &str) -> Result<Vec<Snapshot>, StoreError> {
        self.with_room(|| snapshots::select(self.connection()?, "label = ?1", [label]))
    }

    fn list_snapshots(&self, sandbox: &SandboxId) -> Result<Vec<Snapshot>, StoreError> {
        self.with_room(|| snapshots::select(self.connection()?, "sandbox = ?1 ORDER BY created_at, id", [sandbox.as_str()]))
    }

    fn delete_snapshots(&self, ids: &[SnapshotId]) -> Result<(), StoreError> {
        let removed = self.with_room(|| {
            self.in_transaction(|connection| {
                let mut removed = Vec::new();
                for id in ids {
                    removed.extend(snapshots::select(connection, "id = ?1", [id.as_str()])?);
                    snapshots::delete(connection, id)?;
                }
                Ok(removed)
            })
        })?;
        removed.iter().for_each(|snapshot| self.tell(|w| w.snapshot_removed(snapshot)));
        Ok(())
    }

    fn insert_template(&self, template: &Template, origin: Option<&Origin<'_>>, replace: bool) -> Result<(), StoreError> {
        self.with_room(|| {
            self.in_transaction(|connection| {
                origin.map_or(Ok(()), |origin| snapshots::require(connection, origin))?;
                if replace {
                    connection.prepare_cached("DELETE FROM templates WHERE name = ?1")?.execute([&template.name])?;
                }
                snapshots::insert_template(connection, template)
            })
        })?;
        self.tell(|w| w.template(template));
        Ok(())
    }

    fn get_template(&self, name: &str) -> Result<Option<Template>, StoreError> {
        self.with_room(|| Ok(snapshots::templates(self.connection()?, "WHERE name = ?1", [name])?.pop()))
    }

    fn list_templates(&self) -> Result<Vec<Template>, StoreError> {
        self.with_room(|| snapshots::templates(self.connection()?, "ORDER BY created_at DESC, name", []))
    }

    fn delete_template(&self, name: &str) -> Result<(), StoreError> {
        self.with_room(|| {
            self.connection()?.prepare_cached("DELETE FROM templates WHERE name = ?1")?.execute([name])?;
            Ok(())
        })?;
        self.tell(|w| w.template_removed(name));
        Ok(())
    }

    fn insert_experiment(&self, experiment: &Experiment) -> Result<(), StoreError> {
        self.with_room(|| self.in_transaction(|connection| experiments::insert(connection, experiment)))
    }

    fn find_experiment(&self, name: &str) -> Result<Option<Experiment>, StoreError> {
        self.with_room(|| Ok(experiments::select(self.connection()?, "WHERE name = ?1 OR id = ?1", [name])?.pop()))
    }

    fn latest_experiment(&self, project: &Path) -> Result<Option<Experiment>, StoreError> {
        let rest = "WHERE project = ?1 ORDER BY created_at DESC, id LIMIT 1";
        self.with_room(|| Ok(experiments::select(self.connection()?, rest, [project.as_os_str().as_bytes()])?.pop()))
    }

    fn list_experiments(&self) -> Result<Vec<Experiment>, StoreError> {
        self.with_room(|| experiments::select_readable(self.connection()?, "ORDER BY created_at DESC, id"))
    }

    fn update_experiment(&self, experiment: &mut Experiment) -> Result<(), StoreError> {
        if !self.with_room(|| experiments::update(self.connection()?, experiment))? {
            return Err(StoreError::ExperimentConflict { name: experiment.name.clone() });
        }
        experiment.version += 1;
        Ok(())
    }

    fn put_attempt(&self, id: &ExperimentId, number: usize, attempt: &Attempt) -> Result<(), StoreError> {
        self.with_room(|| experiments::put_attempt(self.connection()?, id, number, attempt))
    }

    fn delete_experiment_named(&self, name: &str) -> Result<(), StoreError> {
        self.with_room(|| self.in_transaction(|connection| experiments::delete_named(connection, name)))
    }

    fn delete_experiment(&self, id: &ExperimentId) -> Result<(), StoreError> {
        self.with_room(|| self.in_transaction(|connection| experiments::delete(connection, id)))
    }

    fn layer_facts(&self, layers: &[LayerId]) -> Result<Vec<LayerFacts>, StoreError> {
        self.with_room(|| snapshots::facts(self.connection()?, layers))
    }

    fn note_layer(&self, layer: &LayerId, facts: &LayerFacts) -> Result<(), StoreError> {
        self.with_room(|| snapshots::note(self.connection()?, layer, facts))
    }

    fn expect_layers(&self, layers: &[LayerId]) -> Result<(), StoreError> {
        self.with_room(|| snapshots::expect(self.connection()?, layers))
    }

    fn known_layers(&self) -> Result<HashSet<LayerId>, StoreError> {
        self.with_room(|| snapshots::known(self.connection()?))
    }

    fn with_layers(&self, work: &mut dyn FnMut(&Layers) -> Vec<LayerId>) -> Result<(), StoreError> {
        self.in_transaction(|connection| {
            let mut needed: HashSet<LayerId> = HashSet::new();
            for sandbox in self.list()? {
                needed.extend(sandbox.details.position.stack);
                needed.extend(sandbox.details.position.mounted);
            }
            for template in self.list_templates()? {
                needed.extend(template.details.position.stack);
            }
            for snapshot in snapshots::select(connection, "TRUE", [])? {
                needed.extend(snapshot.details.stack);
            }
            let gone = work(&Layers { needed, known: snapshots::known(connection)? });
            snapshots::forget(connection, &gone)
        })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Result<Sandbox, StoreError>> {
    let (id, status, details): (String, String, String) = (row.get(0)?, row.get(2)?, row.get(8)?);
    let project: Vec<u8> = row.get(6)?;
    let numbers: [i64; 3] = [row.get(3)?, row.get(4)?, row.get(5)?];
    let [version, created_at, updated_at] = numbers.map(i64::unsigned_abs);
    let (name, provider) = (row.get(1)?, row.get(7)?);
    let malformed = |what: String| StoreError::Malformed(format!("sandbox {id}: {what}"));
    Ok((|| {
        Ok(Sandbox {
            id: SandboxId::parse(&id).ok_or_else(|| malformed("its id".to_owned()))?,
            name,
            status: status.parse().map_err(|e| malformed(format!("{e}")))?,
            version,
            created_at,
            updated_at,
            project: PathBuf::from(std::ffi::OsString::from_vec(project)),
            provider,
            details: serde_json::from_str(&details).map_err(|e| malformed(e.to_string()))?,
        })
    })())
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            _ => Self::Database(error),
        }
    }
}
