-- Records as a whatif of format 2 wrote them.
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
INSERT INTO sandboxes (id, name, status, version, created_at, updated_at, project, provider, idempotency_key, details) VALUES ('4ndeb72n64ce', 'otter', 'stopped', 6, 1794936963260, 1794936963960, X'2f70726f6a656374', 'native', NULL, '{"cwd":"/project","labels":{},"net":"filtered","network":{"registries":true,"local":false,"allow":[],"deny":[],"reach":[],"publish":[],"secrets":[],"by_default":true},"backend":"overlay","backend_reason":null,"identity":{"kind":"mapped","base":1879048192,"count":251658240},"trees":["/","/project"],"copied_trees":[],"masked":[],"exposed":[],"dropped_env":[],"carried_env":[],"set_env":[],"keeper_pid":null,"keeper_version":7,"protection":{"landlock_abi":7,"read_only":[]},"stop_reason":"requested","error":null,"command":[],"exit_code":null,"changed_files":2,"size_bytes":0,"based_at":null,"position":{"stack":["2d70k21mfxq1","vg8g5j8ta5eg"],"mounted":["2d70k21mfxq1","vg8g5j8ta5eg"],"heads":[0,1],"work":2,"at":"cgq5n8njaatm","taken":2,"began_at":null,"made_from":null,"viewed":{"at":[1794936963,869228305],"tick":[1794936963,861834281],"project":[65024,8790053]}},"auto_snapshot":false,"limits":{"preset":null,"require":false,"cpus":null,"memory":null,"pids":null,"disk":null,"inodes":null,"timeout":null,"ttl":null,"idle":null},"enforced":[],"expiry":null,"usage":null,"transient":false,"disposable":false}');
INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES ('3njs98reg6rn', 'c6vsy97kqg69', 'fork-1', 1794936982018, '{"made_by":"fork","message":null,"parent":null,"stack":["yn65eszbqt5k"],"durable":false}');
INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES ('cgq5n8njaatm', '4ndeb72n64ce', 'second', 1794936963869, '{"made_by":"request","message":null,"parent":"z2p44whscyh5","stack":["2d70k21mfxq1","vg8g5j8ta5eg"],"durable":false}');
INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES ('mqa6v7qjsvns', 'mfpkwfnz2b4e', 'fork-1', 1794936981982, '{"made_by":"fork","message":null,"parent":null,"stack":["nrzzxkf84fqn"],"durable":false}');
INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES ('z2p44whscyh5', '4ndeb72n64ce', 'first', 1794936963621, '{"made_by":"request","message":null,"parent":null,"stack":["2d70k21mfxq1"],"durable":false}');
INSERT INTO templates (name, created_at, details) VALUES ('deps', 1794936964024, '{"name":"deps","created_at":1794936964024,"project":"/project","provider":"native","message":null,"lockfiles":[],"details":{"cwd":"/project","labels":{},"net":"filtered","network":{"registries":true,"local":false,"allow":[],"deny":[],"reach":[],"publish":[],"secrets":[],"by_default":true},"backend":"overlay","backend_reason":null,"identity":{"kind":"mapped","base":1879048192,"count":251658240},"trees":["/","/project"],"copied_trees":[],"masked":[],"exposed":[],"dropped_env":[],"carried_env":[],"set_env":[],"keeper_pid":null,"keeper_version":7,"protection":{"landlock_abi":7,"read_only":[]},"stop_reason":"requested","error":null,"command":[],"exit_code":null,"changed_files":2,"size_bytes":0,"based_at":null,"position":{"stack":["2d70k21mfxq1","vg8g5j8ta5eg"],"mounted":[],"work":2,"at":"cgq5n8njaatm","taken":2,"began_at":1794936963260,"made_from":null,"viewed":{"at":[1794936963,869228305],"tick":[1794936963,861834281],"project":[65024,8790053]}},"auto_snapshot":false,"limits":{"preset":null,"require":false,"cpus":null,"memory":null,"pids":null,"disk":null,"inodes":null,"timeout":null,"ttl":null,"idle":null},"enforced":[],"expiry":null,"usage":null,"transient":false,"disposable":false}}');
INSERT INTO layers (id, facts) VALUES ('2d70k21mfxq1', '{"tier":0,"files":4,"bytes":57344}');
INSERT INTO layers (id, facts) VALUES ('vg8g5j8ta5eg', '{"tier":0,"files":4,"bytes":57344}');
