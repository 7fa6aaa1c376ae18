//! The tables, and how those of earlier formats become them.

/// Forward-only: entry N turns format N into format N + 1.
pub(super) const MIGRATIONS: [&str; 5] = [
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
    // What a team needs: whose a sandbox is and where, and what keeps those apart who work at the same time.
    "
    ALTER TABLE sandboxes ADD COLUMN owner TEXT;
    ALTER TABLE sandboxes ADD COLUMN node TEXT;
    CREATE TABLE leases (
        resource TEXT PRIMARY KEY NOT NULL,
        holder TEXT,
        node TEXT NOT NULL,
        fence INTEGER NOT NULL,
        expires_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE reservations (
        holder TEXT NOT NULL,
        path BLOB NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (holder, path)
    ) WITHOUT ROWID;
    CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO counters VALUES ('events', 0), ('dropped events', 0), ('audit', 0);
    CREATE TABLE events (
        number INTEGER PRIMARY KEY NOT NULL,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        subject TEXT NOT NULL,
        owner TEXT,
        body TEXT NOT NULL
    );
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY NOT NULL,
        at INTEGER NOT NULL,
        principal TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT NOT NULL,
        body TEXT NOT NULL,
        hash BLOB NOT NULL
    );
    CREATE TABLE keys (
        scope TEXT NOT NULL,
        word TEXT NOT NULL,
        verb TEXT NOT NULL,
        request TEXT NOT NULL,
        outcome TEXT,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (scope, word)
    ) WITHOUT ROWID;
    PRAGMA user_version = 5;
",
];
