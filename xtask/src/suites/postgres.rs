//! `PostgreSQL`'s regression tests, of Debian's sources, against the server that Debian ships; and a server that crashes and comes back.

use std::path::Path;

use super::compare::{Outcome, Outcomes};
use super::{Network, Suite, debian, tap};
use crate::failure::Failure;

pub(super) const SUITE: Suite = Suite {
    name: "postgres",
    prepare: install,
    usual,
    all: usual,
    command,
    read,
    network: Network::Loopback,
    programs: None,
    options: &[],
};

const INSTALL: &str = r#"
packages postgresql-15 postgresql-server-dev-15 gcc make
[ ! -e built ] || exit 0
rm -rf postgresql-15-*/ lib
sources postgresql-15 "$(dpkg-query -W -f '${source:Version}' postgresql-15)"
mkdir lib
cc -O1 -fPIC -shared -w -I"$(/usr/lib/postgresql/15/bin/pg_config --includedir-server)" -o lib/regress.so postgresql-15-*/src/test/regress/regress.c
cp /usr/lib/postgresql/15/lib/refint.so /usr/lib/postgresql/15/lib/autoinc.so lib
chmod -R a+rX .
touch built
"#;

fn install(directory: &Path) -> Result<(), Failure> {
    debian::prepare(directory, INSTALL)
}

fn usual(_: &Path) -> Result<Vec<String>, Failure> {
    Ok(["regress", "crash"].map(str::to_owned).to_vec())
}

/// The server refuses to run as root, so root runs everything as somebody else.
const AS_ORDINARY: &str = r#"
if [ "$(id -u)" = 0 ]; then
    chown 65534:65534 .
    HOME=$PWD exec setpriv --reuid=65534 --regid=65534 --clear-groups -- sh -c "$script"
fi
exec sh -c "$script"
"#;

/// A server of its own, with all tests of the regression suite one after another, or at once where they may.
const REGRESS: &str = r#"
sources=$(echo "$suite"/postgresql-15-*/src/test/regress)
/usr/lib/postgresql/15/lib/pgxs/src/test/regress/pg_regress --inputdir="$sources" --outputdir="$PWD/out" --temp-instance="$PWD/instance" \
    --bindir=/usr/lib/postgresql/15/bin --dlpath="$suite/lib" --schedule="$sources/parallel_schedule" --no-locale --encoding=UTF8 2>&1
"#;

/// Money is moved between accounts while a process of the server is killed, and while the server is. None is lost or made.
const CRASH: &str = r#"
export PATH=/usr/lib/postgresql/15/bin:$PATH PGHOST=$PWD/socket PGDATA=$PWD/data PGUSER=tester PGDATABASE=postgres
mkdir socket
check() { name=$1; shift; if "$@" >>log 2>&1; then echo "ok $name"; else echo "not ok $name"; fi; }
start() { pg_ctl -w -t 120 -l server.log -o "-k $PWD/socket -c listen_addresses=" start; }
value() { psql -AtXqc "$1"; }
moved() { value 'select count(*) from pgbench_history'; }
balanced() {
    [ "$(value 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
        and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
        and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)')" = t ]
}
wait_for() { tries=0; until "$@" >/dev/null 2>&1; do tries=$((tries + 1)); [ $tries -lt 300 ] || return 1; sleep 0.2; done; }
more_than() { [ "$(moved)" -gt "$1" ]; }
check 'a cluster is made' initdb --data-checksums --no-locale -E UTF8 -U tester
check 'it starts' start
check 'tables are filled' pgbench -i -s 3 -q
check 'clients move money' pgbench -n -c 4 -j 2 -t 250
check 'a thousand times' [ "$(moved)" = 1000 ]
check 'the sums agree' balanced
pgbench -n -c 4 -j 2 -T 60 >>log 2>&1 &
check 'clients are at work' wait_for more_than 1500
kill -9 "$(value "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() limit 1")"
wait $!
check 'it recovers when one of its processes is killed' wait_for value 'select 1'
check 'the sums agree after that' balanced
before=$(moved)
pgbench -n -c 4 -j 2 -T 60 >>log 2>&1 &
check 'clients are at work again' wait_for more_than $((before + 500))
check 'it stops without a checkpoint' pg_ctl -m immediate stop
wait $!
check 'it starts and replays its log' start
check 'the sums agree after the crash' balanced
check 'nothing that was reported is lost' more_than $((before + 500))
check 'an online backup is made' pg_basebackup -D copy --checkpoint=fast
check 'the backup is whole' pg_verifybackup copy
check 'a database is dumped' pg_dump -Fc -f dump
check 'another is made' createdb other
check 'the dump is restored' pg_restore -d other dump
check 'with the same content' [ "$(value 'select count(*), sum(delta) from pgbench_history')" = "$(PGDATABASE=other value 'select count(*), sum(delta) from pgbench_history')" ]
check 'it stops' pg_ctl -m fast stop
check 'no page is damaged' pg_checksums --check
PGDATA=$PWD/copy
check 'the backup starts' start
check 'the sums of the backup agree' balanced
check 'the backup stops' pg_ctl -m fast stop
"#;

fn command(directory: &Path, part: &str) -> Result<String, Failure> {
    let script = match part {
        "regress" => REGRESS,
        "crash" => CRASH,
        unknown => return Err(Failure::Usage(format!("'{unknown}' is no part of postgres"))),
    };
    let script = script.replace('\'', r"'\''");
    Ok(format!("echo 'script {part}'; export suite='{}' script='{script}'\n{AS_ORDINARY}", directory.display()))
}

/// The program that runs the regression tests has words of its own.
fn read(report: &str) -> Outcomes {
    let mut outcomes = tap::read(report);
    let outcome = |line: &str| {
        let (name, outcome) = line.split_once(" ... ")?;
        let name = name.trim().strip_prefix("test ").unwrap_or(name.trim()).trim();
        let outcome = match outcome.split_whitespace().next()? {
            "ok" => Outcome::Passed,
            "FAILED" | "failed" => Outcome::Failed,
            _ => return None,
        };
        Some((format!("regress {name}"), outcome))
    };
    outcomes.extend(report.lines().filter_map(outcome));
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_reports_are_read() {
        let report = "script crash\nok it starts\ntest tablespace                   ... ok          520 ms\n\
                      parallel group (2 tests):  char boolean\n     boolean                      ... ok           87 ms\n     \
                      char                         ... FAILED       31 ms\n";
        let expected = [
            ("crash it starts", Outcome::Passed),
            ("regress boolean", Outcome::Passed),
            ("regress char", Outcome::Failed),
            ("regress tablespace", Outcome::Passed),
        ];
        assert_eq!(read(report), expected.map(|(name, outcome)| (name.to_owned(), outcome)).into());
    }
}
