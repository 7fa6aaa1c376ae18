//! The rows of events. The number of the last one is a row of its own: who adds an event has that row until the transaction ends, so
//! that numbers become visible in their order.

use super::audit::append_deed;
use super::json::{from_json, to_json};
use super::{Connection, Database, Mode, Row, SqlStore};
use crate::{Deed, Event, Events, Happening, SpoolPart, Spooled, StoreError};

impl<D: Database> Events for SqlStore<D> {
    fn append_event(&self, happening: &Happening<'_>, now: u64) -> Result<u64, StoreError> {
        self.run(Mode::Together, |connection| append(connection, happening, now))
    }

    fn events_after(&self, number: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.run(Mode::Single, |connection| {
            let sql = format!(
                "SELECT number, at, kind, subject, owner, body FROM events WHERE number > ?1 ORDER BY number LIMIT {limit}"
            );
            let found = connection.query(&sql, &[number.into()])?;
            // Asked for afterwards: what was dropped while we read is noticed.
            match last_number(connection, "dropped events")? {
                dropped if dropped > number => Err(StoreError::EventsGone { oldest: dropped + 1 }),
                _ => found.into_iter().map(read).collect(),
            }
        })
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        self.run(Mode::Single, |connection| last_number(connection, "events"))
    }

    fn first_event(&self) -> Result<u64, StoreError> {
        self.run(Mode::Single, |connection| Ok(last_number(connection, "dropped events")? + 1))
    }

    fn drop_events_before(&self, number: u64) -> Result<(), StoreError> {
        self.run(Mode::Together, |connection| {
            let last = last_number(connection, "events")?;
            let dropped = number.saturating_sub(1).min(last);
            connection.execute("UPDATE counters SET value = ?1 WHERE name = 'dropped events' AND value < ?1", &[dropped.into()])?;
            connection.execute("DELETE FROM events WHERE number <= ?1", &[dropped.into()])?;
            Ok(())
        })
    }

    fn spooled(&self, spool: &str) -> Result<u64, StoreError> {
        self.run(Mode::Single, |connection| spooled(connection, &counter(spool)))
    }

    fn append_spooled(&self, part: &SpoolPart<'_>, events: &[Spooled]) -> Result<bool, StoreError> {
        let counter = counter(part.spool);
        self.run(Mode::Together, |connection| {
            // The row of the last number is held until the end of the transaction, so nobody else is between these two.
            let last = "UPDATE counters SET value = value WHERE name = 'events'";
            connection.execute(last, &[])?;
            if spooled(connection, &counter)? != part.from {
                return Ok(false);
            }
            let place =
                "INSERT INTO counters (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
            connection.execute(place, &[(&counter).into(), part.to.into()])?;
            for Spooled { at, kind, subject, owner, body, deed_of } in events {
                append(connection, &Happening { kind, subject, owner: owner.as_deref(), body }, *at)?;
                if let Some(principal) = deed_of {
                    append_deed(connection, &Deed { principal, action: kind, subject, body }, *at)?;
                }
            }
            Ok(true)
        })
    }

    fn forget_spool(&self, spool: &str) -> Result<(), StoreError> {
        self.run(Mode::Single, |connection| {
            connection.execute("DELETE FROM counters WHERE name = ?1", &[(&counter(spool)).into()])?;
            Ok(())
        })
    }
}

/// The row that says how much of a spool is recorded.
fn counter(spool: &str) -> String {
    format!("spool {spool}")
}

fn spooled(connection: &mut dyn Connection, counter: &str) -> Result<u64, StoreError> {
    match connection.query("SELECT value FROM counters WHERE name = ?1", &[counter.into()])?.pop() {
        Some(mut row) => row.number(0),
        None => Ok(0),
    }
}

fn append(connection: &mut dyn Connection, happening: &Happening<'_>, at: u64) -> Result<u64, StoreError> {
    let number = next_number(connection, "events")?;
    connection.execute(
        "INSERT INTO events (number, at, kind, subject, owner, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        &[
            number.into(),
            at.into(),
            happening.kind.into(),
            happening.subject.into(),
            happening.owner.into(),
            (&to_json(happening.body)?).into(),
        ],
    )?;
    Ok(number)
}

/// Nobody else gets one until the transaction ends.
pub(super) fn next_number(connection: &mut dyn Connection, of: &str) -> Result<u64, StoreError> {
    let sql = "UPDATE counters SET value = value + 1 WHERE name = ?1 RETURNING value";
    counted(connection.query(sql, &[of.into()])?, of)
}

pub(super) fn last_number(connection: &mut dyn Connection, of: &str) -> Result<u64, StoreError> {
    counted(connection.query("SELECT value FROM counters WHERE name = ?1", &[of.into()])?, of)
}

fn counted(mut rows: Vec<Row>, of: &str) -> Result<u64, StoreError> {
    rows.pop().ok_or_else(|| StoreError::Malformed(format!("{of} are not counted")))?.number(0)
}

fn read(mut row: Row) -> Result<Event, StoreError> {
    Ok(Event {
        number: row.number(0)?,
        at: row.number(1)?,
        kind: row.text(2)?,
        subject: row.text(3)?,
        owner: row.text_or_none(4)?,
        body: from_json(&row.text(5)?)?,
    })
}
