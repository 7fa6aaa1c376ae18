//! The tables, and how those of earlier formats become them.

use postgres::Client;
use whatif_store::StoreError;

use crate::session::failed;

/// Two who are the first take turns by this lock. The number means nothing.
const TURN: i64 = 7_305_808_869_229_538_666;

/// Forward-only: entry N turns format N into format N + 1. Text is ordered by its bytes, as everywhere else.
const MIGRATIONS: [&str; 1] = [r#"
    CREATE TABLE sandboxes (
        id TEXT COLLATE "C" PRIMARY KEY,
        name TEXT COLLATE "C" NOT NULL UNIQUE,
        status TEXT NOT NULL,
        version BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        project BYTEA NOT NULL,
        provider TEXT NOT NULL,
        owner TEXT,
        node TEXT,
        idempotency_key TEXT UNIQUE,
        details JSON NOT NULL
    );
    CREATE INDEX sandboxes_by_age ON sandboxes (created_at DESC, id);
    CREATE TABLE snapshots (
        id TEXT COLLATE "C" PRIMARY KEY,
        sandbox TEXT COLLATE "C" NOT NULL,
        label TEXT COLLATE "C" NOT NULL,
        created_at BIGINT NOT NULL,
        details JSON NOT NULL,
        UNIQUE (sandbox, label)
    );
    CREATE INDEX snapshots_by_label ON snapshots (label);
    CREATE TABLE templates (name TEXT COLLATE "C" PRIMARY KEY, created_at BIGINT NOT NULL, details JSON NOT NULL);
    CREATE TABLE layers (id TEXT COLLATE "C" PRIMARY KEY, facts JSON NOT NULL);
    CREATE TABLE experiments (
        id TEXT COLLATE "C" PRIMARY KEY,
        name TEXT COLLATE "C" NOT NULL UNIQUE,
        version BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        project BYTEA NOT NULL,
        details JSON NOT NULL
    );
    CREATE TABLE attempts (
        experiment TEXT COLLATE "C" NOT NULL,
        number BIGINT NOT NULL,
        details JSON NOT NULL,
        PRIMARY KEY (experiment, number)
    );
    CREATE TABLE leases (
        resource TEXT COLLATE "C" PRIMARY KEY,
        holder TEXT,
        node TEXT NOT NULL,
        fence BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
    );
    CREATE TABLE reservations (holder TEXT NOT NULL, path BYTEA NOT NULL, expires_at BIGINT NOT NULL, PRIMARY KEY (holder, path));
    CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
    INSERT INTO counters VALUES ('events', 0), ('dropped events', 0), ('audit', 0);
    CREATE TABLE events (
        number BIGINT PRIMARY KEY,
        at BIGINT NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        owner TEXT,
        body JSON NOT NULL
    );
    CREATE TABLE audit (
        number BIGINT PRIMARY KEY,
        at BIGINT NOT NULL,
        principal TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT NOT NULL,
        body TEXT NOT NULL,
        hash BYTEA NOT NULL
    );
    CREATE TABLE keys (
        scope TEXT NOT NULL,
        word TEXT NOT NULL,
        verb TEXT NOT NULL,
        request TEXT NOT NULL,
        outcome TEXT,
        expires_at BIGINT NOT NULL,
        PRIMARY KEY (scope, word)
    );

    -- Every layer that any record names or has named, until it is deleted. Triggers fill it, so no statement can forget to.
    CREATE TABLE known_layers (id TEXT COLLATE "C" PRIMARY KEY);
    CREATE FUNCTION know_layers(named JSON) RETURNS void LANGUAGE sql AS $$
        INSERT INTO known_layers SELECT json_array_elements_text(named) WHERE json_typeof(named) = 'array' ON CONFLICT DO NOTHING
    $$;
    CREATE FUNCTION know_layers_of_sandbox() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM know_layers(NEW.details -> 'position' -> 'stack');
        PERFORM know_layers(NEW.details -> 'position' -> 'mounted');
        RETURN NULL;
    END $$;
    CREATE FUNCTION know_layers_of_snapshot() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM know_layers(NEW.details -> 'stack');
        RETURN NULL;
    END $$;
    CREATE FUNCTION know_layers_of_template() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM know_layers(NEW.details -> 'details' -> 'position' -> 'stack');
        RETURN NULL;
    END $$;
    CREATE TRIGGER know_layers AFTER INSERT OR UPDATE OF details ON sandboxes FOR EACH ROW EXECUTE FUNCTION know_layers_of_sandbox();
    CREATE TRIGGER know_layers AFTER INSERT ON snapshots FOR EACH ROW EXECUTE FUNCTION know_layers_of_snapshot();
    CREATE TRIGGER know_layers AFTER INSERT ON templates FOR EACH ROW EXECUTE FUNCTION know_layers_of_template();
"#];

pub(crate) fn make(client: &mut Client) -> Result<(), StoreError> {
    let known = MIGRATIONS.len() as i64;
    let mut transaction = client.transaction().map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&TURN]).map_err(failed)?;
    transaction.batch_execute("CREATE TABLE IF NOT EXISTS format (version BIGINT NOT NULL)").map_err(failed)?;
    let found: i64 = transaction.query_one("SELECT coalesce(max(version), 0) FROM format", &[]).map_err(failed)?.get(0);
    if found > known {
        return Err(StoreError::TooNew { path: "this database".to_owned(), found, known });
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.batch_execute(migration).map_err(failed)?;
    }
    if found < known {
        transaction.execute("DELETE FROM format", &[]).map_err(failed)?;
        transaction.execute("INSERT INTO format VALUES ($1)", &[&known]).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}
