-- Records as a whatif of format 4 wrote them.
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
INSERT INTO sandboxes (id, name, status, version, created_at, updated_at, project, provider, idempotency_key, details) VALUES ('4ndeb72n64ce', 'otter', 'stopped', 6, 1794936963260, 1794936963960, X'2f70726f6a656374', 'native', NULL, '{"cwd":"/project","labels":{},"net":"filtered","network":{"registries":true,"local":false,"allow":[],"deny":[],"reach":[],"publish":[],"secrets":[],"by_default":true},"backend":"overlay","backend_reason":null,"identity":{"kind":"mapped","base":1879048192,"count":251658240},"trees":["/","/project"],"copied_trees":[],"masked":[],"exposed":[],"dropped_env":[],"carried_env":[],"set_env":[],"keeper_pid":null,"keeper_version":7,"protection":{"landlock_abi":7,"read_only":[]},"stop_reason":"requested","error":null,"command":[],"exit_code":null,"changed_files":2,"size_bytes":0,"based_at":null,"position":{"stack":["2d70k21mfxq1","vg8g5j8ta5eg"],"mounted":["2d70k21mfxq1","vg8g5j8ta5eg"],"heads":[0,1],"work":2,"at":"cgq5n8njaatm","taken":2,"began_at":null,"made_from":null,"viewed":{"at":[1794936963,869228305],"tick":[1794936963,861834281],"project":[65024,8790053]}},"auto_snapshot":false,"limits":{"preset":null,"require":false,"cpus":null,"memory":null,"pids":null,"disk":null,"inodes":null,"timeout":null,"ttl":null,"idle":null},"enforced":[],"expiry":null,"usage":null,"transient":false,"disposable":false}');
INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES ('3njs98reg6rn', 'c6vsy97kqg69', 'fork-1', 1794936982018, '{"made_by":"fork","message":null,"parent":null,"stack":["yn65eszbqt5k"],"durable":false}');
INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES ('cgq5n8njaatm', '4ndeb72n64ce', 'second', 1794936963869, '{"made_by":"request","message":null,"parent":"z2p44whscyh5","stack":["2d70k21mfxq1","vg8g5j8ta5eg"],"durable":false}');
INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES ('mqa6v7qjsvns', 'mfpkwfnz2b4e', 'fork-1', 1794936981982, '{"made_by":"fork","message":null,"parent":null,"stack":["nrzzxkf84fqn"],"durable":false}');
INSERT INTO snapshots (id, sandbox, label, created_at, details) VALUES ('z2p44whscyh5', '4ndeb72n64ce', 'first', 1794936963621, '{"made_by":"request","message":null,"parent":null,"stack":["2d70k21mfxq1"],"durable":false}');
INSERT INTO templates (name, created_at, details) VALUES ('deps', 1794936964024, '{"name":"deps","created_at":1794936964024,"project":"/project","provider":"native","message":null,"lockfiles":[],"details":{"cwd":"/project","labels":{},"net":"filtered","network":{"registries":true,"local":false,"allow":[],"deny":[],"reach":[],"publish":[],"secrets":[],"by_default":true},"backend":"overlay","backend_reason":null,"identity":{"kind":"mapped","base":1879048192,"count":251658240},"trees":["/","/project"],"copied_trees":[],"masked":[],"exposed":[],"dropped_env":[],"carried_env":[],"set_env":[],"keeper_pid":null,"keeper_version":7,"protection":{"landlock_abi":7,"read_only":[]},"stop_reason":"requested","error":null,"command":[],"exit_code":null,"changed_files":2,"size_bytes":0,"based_at":null,"position":{"stack":["2d70k21mfxq1","vg8g5j8ta5eg"],"mounted":[],"work":2,"at":"cgq5n8njaatm","taken":2,"began_at":1794936963260,"made_from":null,"viewed":{"at":[1794936963,869228305],"tick":[1794936963,861834281],"project":[65024,8790053]}},"auto_snapshot":false,"limits":{"preset":null,"require":false,"cpus":null,"memory":null,"pids":null,"disk":null,"inodes":null,"timeout":null,"ttl":null,"idle":null},"enforced":[],"expiry":null,"usage":null,"transient":false,"disposable":false}}');
INSERT INTO layers (id, facts) VALUES ('2d70k21mfxq1', '{"tier":0,"files":4,"bytes":57344}');
INSERT INTO layers (id, facts) VALUES ('vg8g5j8ta5eg', '{"tier":0,"files":4,"bytes":57344}');
INSERT INTO experiments (id, name, version, created_at, project, details) VALUES ('yn091wdtefvr', 'heron', 2, 1794936981853, X'2f70726f6a656374', '{"plan":{"attempts":[{"name":"1","kind":"command","about":"true","arguments":["/bin/sh","-c","true"],"input":null,"parameters":{}},{"name":"2","kind":"command","about":"echo b > x","arguments":["/bin/sh","-c","echo b > x"],"input":null,"parameters":{}}],"checks":[{"name":"true","run":"true","required":true,"timeout":null,"report":null}],"metrics":[],"weights":{},"setup":null,"judge":null,"protect":[],"repeats":1,"jobs":null,"budget":null,"first_success":false,"cancel_losers":false},"began_at":1794936981853,"ended_at":1794936982173,"spent_ms":297,"cwd":"/project","sandbox":{"auto_snapshot":false,"backend":null,"disposable":false,"env":[],"expose":[],"idempotency_key":null,"labels":{},"limits":{"cpus":null,"disk":null,"idle":null,"inodes":null,"memory":null,"pids":null,"preset":null,"require":false,"timeout":null,"ttl":null},"mask":[],"name":null,"net":[],"provider":null,"publish":[],"reach":[],"secrets":[],"template":null},"set_env":[],"start":null,"judged":[],"applied":[]}');
INSERT INTO attempts (experiment, number, details) VALUES ('yn091wdtefvr', 0, '{"state":"ended","sandbox":"mfpkwfnz2b4e","snapshot":"mqa6v7qjsvns","seal":"39be8aada1d48fa1884f1f7332bca6dbc2ee3e9ccb342615376537d0de5872af","so_far":null,"outcome":{"verdict":{"is":"passed"},"ended":{"exit_code":0,"timed_out":false,"limit_hit":null,"usage":{"wall_ms":37,"cpu_ms":1,"peak_memory_bytes":1581056,"written_bytes":0},"tail":""},"checks":[{"name":"true","required":true,"runs":[{"exit_code":0,"timed_out":false,"limit_hit":null,"usage":{"wall_ms":8,"cpu_ms":1,"peak_memory_bytes":1613824,"written_bytes":0},"tail":""}],"tests":null}],"changes":{"files":0,"added_lines":0,"deleted_lines":0,"bytes":0,"ignored":0,"outside":0,"list":[]},"denied":[],"metrics":{"attempt_duration":{"value":0.037,"low":0.037,"high":0.037,"runs":1},"bytes":{"value":0.0,"low":0.0,"high":0.0,"runs":1},"cpu":{"value":0.001,"low":0.001,"high":0.001,"runs":1},"duration":{"value":0.008,"low":0.008,"high":0.008,"runs":1},"files":{"value":0.0,"low":0.0,"high":0.0,"runs":1},"lines":{"value":0.0,"low":0.0,"high":0.0,"runs":1},"memory":{"value":1613824.0,"low":1613824.0,"high":1613824.0,"runs":1}},"remarks":[]}}');
INSERT INTO attempts (experiment, number, details) VALUES ('yn091wdtefvr', 1, '{"state":"ended","sandbox":"c6vsy97kqg69","snapshot":"3njs98reg6rn","seal":"9d757f4e5026e734dfbe995cc3d6a40116a751165019ababeb870a082fced0fa","so_far":null,"outcome":{"verdict":{"is":"passed"},"ended":{"exit_code":0,"timed_out":false,"limit_hit":null,"usage":{"wall_ms":4,"cpu_ms":1,"peak_memory_bytes":1646592,"written_bytes":40960},"tail":""},"checks":[{"name":"true","required":true,"runs":[{"exit_code":0,"timed_out":false,"limit_hit":null,"usage":{"wall_ms":6,"cpu_ms":1,"peak_memory_bytes":1646592,"written_bytes":0},"tail":""}],"tests":null}],"changes":{"files":1,"added_lines":1,"deleted_lines":0,"bytes":4096,"ignored":0,"outside":0,"list":[{"path":"x","mark":"+","added_lines":1,"deleted_lines":0,"digest":"081f92826ecf3b3a"}]},"denied":[],"metrics":{"attempt_duration":{"value":0.004,"low":0.004,"high":0.004,"runs":1},"bytes":{"value":4096.0,"low":4096.0,"high":4096.0,"runs":1},"cpu":{"value":0.001,"low":0.001,"high":0.001,"runs":1},"duration":{"value":0.006,"low":0.006,"high":0.006,"runs":1},"files":{"value":1.0,"low":1.0,"high":1.0,"runs":1},"lines":{"value":1.0,"low":1.0,"high":1.0,"runs":1},"memory":{"value":1646592.0,"low":1646592.0,"high":1646592.0,"runs":1}},"remarks":[]}}');
