//! Values that no program writes, put into the store by hand: a job, or a schedule.
//!
//! The jobs report once that they cannot read such a value, with its name, and go on with
//! everything else. On a file it stays where it is, and `check` names it. On a server a record is
//! set aside, where `check` names it; a schedule stays. Then the test removes the value again.

use std::time::Duration;

use tickwheel_jobs::rusqlite::{self, Connection, params};
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::{Client, JobId};

use crate::ops::{Ending, Foreign, NAMES, Plan, Task, system};
use crate::oracle::{Oracle, Outcome, ensure};
use crate::place::Place;
use crate::world::World;

/// What is wrong with a row of a job, and with one of a schedule.
const WRONG_JOBS: [&str; 6] = [
    "failures = 'many'",
    "interruptions = -1",
    "payload = 'text'",
    "key = x'ff'",
    "attempts = 4294967296",
    "callers_id = 'yes'",
];
const WRONG_SCHEDULES: [&str; 6] = [
    "next = 'soon'",
    "payload = 7",
    "rule = x'ff'",
    "missed = 'all'",
    "next = -5",
    "rule = 'when the moon is full'",
];

impl World {
    pub(crate) fn foreign(&mut self, what: Foreign, sort: usize, ms: u64) -> Outcome {
        // With few slots the claim that meets it may come later.
        if self.shared.place.is_memory() || self.setup.in_flight < 100 {
            return Ok(());
        }
        // No claim reads the jobs of a paused kind. On a server none reads those of a scope that is full.
        let reads_full = !self.shared.place.has_leases();
        let reads =
            |oracle: &Oracle| !oracle.is_paused(0) && (reads_full || oracle.limited.is_empty());
        if what == Foreign::Job && !reads(&self.shared.lock().oracle) {
            return Ok(());
        }
        let number = self.shared.lock().oracle.number();
        let (place, sort) = (self.shared.place.clone(), sort % 6);
        let other = self.other.as_ref().expect("another process");
        let (id, named) = match what {
            Foreign::Job => {
                let id = wrong_job(&place, other, sort)?;
                (id, format!("job {id}"))
            }
            Foreign::Schedule => {
                let name = format!("foreign-{number}");
                wrong_schedule(&place, &name, sort)?;
                (JobId::from_u128(0), format!("schedule {name:?}"))
            }
        };
        let jobs = self.jobs.as_ref().expect("the jobs run");
        jobs.nudge();
        self.is_told(&named)?;
        let found = jobs.check();
        let is_found = match what {
            Foreign::Job => found.is_err_and(|it| it.to_string().contains(&id.to_string())),
            Foreign::Schedule => true,
        };
        ensure(is_found, || format!("check does not name {named}"))?;
        // Everything else goes on.
        self.shared.lock().foreign = true;
        self.advance(Duration::from_millis(ms))?;
        self.shared.lock().foreign = false;
        let crashed = self.shared.lock().crashed_place();
        for place in core::iter::once(place).chain(crashed) {
            match what {
                Foreign::Job => take_job_away(&place, id)?,
                Foreign::Schedule => take_schedule_away(&place, number)?,
            }
        }
        let told = core::mem::take(&mut self.shared.lock().unreadable);
        ensure(told == [named.clone()], || format!("{told:?} was told of {named}"))?;
        if !self.shared.lock().crashed() {
            self.jobs.as_ref().expect("the jobs run").nudge();
        }
        Ok(())
    }

    fn is_told(&self, named: &str) -> Outcome {
        let told = self.shared.lock().unreadable.clone();
        ensure(told == [named], || format!("{told:?} was told, not {named:?}"))
    }
}

fn failed(error: impl core::fmt::Display) -> String {
    format!("by hand: {error}")
}

fn open(place: &Place) -> Option<(Connection, String)> {
    let conn = Connection::open(place.file()?).expect("the file opens");
    Some((conn, place.prefix()))
}

/// Inserts a job that is due before all others, and makes nonsense of it.
fn wrong_job(place: &Place, other: &Client, sort: usize) -> Outcome<JobId> {
    let plan = Plan { tag: 13, acts: Vec::new(), ends: vec![Ending::Done], partition: None };
    let id = other.insert(When::wall(system(0)), Task::<0>(plan)).map_err(failed)?;
    if let Some((conn, prefix)) = open(place) {
        let wrong = format!("UPDATE {prefix}job SET {} WHERE id = ?1", WRONG_JOBS[sort]);
        let rows = conn.execute(&wrong, [id.to_u128().to_be_bytes()]).map_err(failed)?;
        ensure(rows == 1, || format!("{rows} rows: {wrong}"))?;
    }
    #[cfg(feature = "redis")]
    on_server::wrong_job(place, other, id, sort)?;
    Ok(id)
}

fn take_job_away(place: &Place, id: JobId) -> Outcome {
    if let Some((conn, prefix)) = open(place) {
        let bytes = id.to_u128().to_be_bytes();
        let body = || -> rusqlite::Result<()> {
            let transaction = conn.unchecked_transaction()?;
            for table in ["job", "moved"] {
                conn.execute(&format!("DELETE FROM {prefix}{table} WHERE id = ?1"), [bytes])?;
            }
            let count = format!("UPDATE {prefix}kind SET jobs = jobs - 1 WHERE name = ?1");
            conn.execute(&count, [NAMES[0]])?;
            transaction.commit()
        };
        body().map_err(failed)?;
    }
    #[cfg(feature = "redis")]
    on_server::take_job_away(place, id)?;
    Ok(())
}

fn wrong_schedule(place: &Place, name: &str, sort: usize) -> Outcome {
    if let Some((conn, prefix)) = open(place) {
        let kind = format!("SELECT n FROM {prefix}kind WHERE name = ?1");
        let kind: i64 = conn.query_row(&kind, [NAMES[0]], |row| row.get(0)).map_err(failed)?;
        let sound =
            format!("INSERT INTO {prefix}schedule VALUES (?1, ?2, 'every 9 ms', 0, 5, x'')");
        conn.execute(&sound, params![name, kind]).map_err(failed)?;
        let wrong = WRONG_SCHEDULES[sort];
        let wrong = format!("UPDATE {prefix}schedule SET {wrong} WHERE name = ?1");
        conn.execute(&wrong, [name]).map_err(failed)?;
    }
    #[cfg(feature = "redis")]
    on_server::wrong_schedule(place, name, sort)?;
    Ok(())
}

fn take_schedule_away(place: &Place, number: u64) -> Outcome {
    let name = format!("foreign-{number}");
    if let Some((conn, prefix)) = open(place) {
        let wrong = format!("DELETE FROM {prefix}schedule WHERE name = ?1");
        let rows = conn.execute(&wrong, [&name]).map_err(failed)?;
        ensure(rows == 1, || "the schedule is gone".to_owned())?;
    }
    #[cfg(feature = "redis")]
    on_server::take_schedule_away(place, &name)?;
    Ok(())
}

#[cfg(feature = "redis")]
mod on_server {
    use tickwheel_jobs::{Cancel, Client, JobId};

    use super::failed;
    use crate::ops::NAMES;
    use crate::oracle::{Outcome, ensure};
    use crate::place::Place;

    /// Sends a command about a key of the queue, if the store is on a server.
    fn send<T: redis::FromRedisValue>(
        place: &Place,
        (command, key): (&str, &str),
        args: &[&[u8]],
    ) -> Outcome<Option<T>> {
        let Place::Queue(nodes, queue) = place else { return Ok(None) };
        let mut cmd = redis::cmd(command);
        cmd.arg(format!("tw:{{{queue}}}:{key}"));
        for arg in args {
            cmd.arg(*arg);
        }
        cmd.query(&mut nodes.connection(queue)).map(Some).map_err(failed)
    }

    pub(super) fn wrong_job(place: &Place, other: &Client, id: JobId, sort: usize) -> Outcome {
        let bytes = id.to_u128().to_be_bytes();
        let record: Option<Vec<u8>> = send(place, ("HGET", "jobs"), &[&bytes])?;
        let Some(mut record) = record else { return Ok(()) };
        match sort {
            0 => record = b"short".to_vec(),
            1 => record.clear(),
            2 => record[0] = 0x80,
            3 => record[14] = 255,
            4 => record[17] = b'O',
            _ => record.truncate(14),
        }
        let _: Option<i64> = send(place, ("HSET", "jobs"), &[&bytes, &record])?;
        // Until a claim meets it, it is as if there were no such job.
        let gone = other.get(id).map_err(failed)?.is_none()
            && other.cancel(id).map_err(failed)? == Cancel::Gone
            && !other.reschedule(id, std::time::Duration::ZERO).map_err(failed)?
            && !other.pending().any(|job| job.id == id);
        ensure(gone, || format!("{id} is there, and makes no sense"))
    }

    pub(super) fn take_job_away(place: &Place, id: JobId) -> Outcome {
        let bytes = id.to_u128().to_be_bytes();
        let removed: Option<i64> =
            send(place, ("HDEL", "unreadable"), &[&[b"jobs:", &bytes[..]].concat()])?;
        ensure(removed.is_none_or(|removed| removed == 1), || "it was not set aside".to_owned())
    }

    pub(super) fn wrong_schedule(place: &Place, name: &str, sort: usize) -> Outcome {
        let row = |rule: &str| {
            let mut row = [&5_u64.to_be_bytes()[..], &[0; 8], &[NAMES[0].len() as u8]].concat();
            row.extend((rule.len() as u16).to_be_bytes());
            [&row, NAMES[0].as_bytes(), rule.as_bytes()].concat()
        };
        let wrong = match sort {
            0 => b"something else".to_vec(),
            1 => Vec::new(),
            2 => row("every 9 ms")[..20].to_vec(),
            3 => row("at noon"),
            4 => row("every moon"),
            _ => [&row("every 9 ms")[..19], b"\xff\xff\xff\xff\xff"].concat(),
        };
        let _: Option<i64> = send(place, ("HSET", "schedules"), &[name.as_bytes(), &wrong])?;
        changed(place)
    }

    pub(super) fn take_schedule_away(place: &Place, name: &str) -> Outcome {
        let removed: Option<i64> = send(place, ("HDEL", "schedules"), &[name.as_bytes()])?;
        ensure(removed.is_none_or(|removed| removed == 1), || "the schedule is gone".to_owned())?;
        changed(place)
    }

    /// The nodes read the schedules again.
    fn changed(place: &Place) -> Outcome {
        send::<i64>(place, ("HINCRBY", "meta"), &[b"schedules", b"1"]).map(drop)
    }
}
