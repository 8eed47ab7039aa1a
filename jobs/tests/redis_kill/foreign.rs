//! Records that are written into the queue by hand, and that no process can read.

use tickwheel_jobs::JobId;

use crate::deaths::child::now_us;
use crate::deaths::lives::Result;
use crate::deaths::record::Record;
use crate::outage::Outage;
use crate::parent::Story;
use crate::server::Server;

const KEYS: &str = "tw:{jobs}:";

fn key(name: &str) -> String {
    format!("{KEYS}{name}")
}

impl Story {
    /// Writes a record that makes no sense, due now, or a schedule.
    pub(crate) fn write_by_hand(&mut self) -> Result<()> {
        let Some(n) = self.foreign else { return Ok(()) };
        let mut connection = self.server.connection();
        if self.lives.draw.u64(..4) == 0 {
            let name = format!("bad{n}");
            self.lives.note(0, Record::Foreign { what: format!("schedule {name:?}") });
            let mut both = redis::pipe();
            both.atomic().cmd("HSET").arg(key("schedules")).arg(name).arg("something else");
            both.cmd("HINCRBY").arg(key("meta")).arg("schedules").arg(1).exec(&mut connection)?;
        } else {
            // An insert makes its kind known first.
            let known: bool =
                redis::cmd("HEXISTS").arg(key("kinds")).arg("work").query(&mut connection)?;
            if !known {
                return Ok(());
            }
            let id = JobId::new();
            self.lives.note(0, Record::Foreign { what: format!("job {id}") });
            let (id, due) = (id.to_u128().to_be_bytes(), now_us() / 1000);
            let mut all = redis::pipe();
            all.atomic().cmd("HSET").arg(key("jobs")).arg(&id).arg("something else");
            all.cmd("ZADD").arg(key("due:work")).arg(due).arg(&id);
            all.cmd("HINCRBY").arg(key("kinds")).arg("work").arg(1).exec(&mut connection)?;
        }
        self.foreign = Some(n + 1);
        Ok(())
    }

    /// Notes the records that are set aside in the end, and removes them, as the manual tells an operator.
    pub(crate) fn remove_what_is_set_aside(&mut self) -> Result<()> {
        if self.foreign.is_none() {
            return Ok(());
        }
        let schedules = bad_schedules(&self.server);
        let mut what: Vec<String> =
            set_aside(&self.server)?.iter().map(|id| format!("job {id}")).collect();
        what.extend(schedules.iter().map(|name| format!("schedule {name:?}")));
        // A line is not too long: the parent writes none.
        self.lives.note(0, Record::SetAside { what });
        let _: i64 = self.server.ask(&["DEL", &key("unreadable")]);
        for name in schedules {
            let _: i64 = self.server.ask(&["HDEL", &key("schedules"), &name]);
        }
        self.foreign = None;
        Ok(())
    }

    /// Says whether the check has to find this: a record that was written by hand, or what a script left that ended
    /// in its midst.
    pub(crate) fn is_expected(&self, violation: &str) -> bool {
        let log = self.log();
        let is_named = |what: &str| {
            let name = what.strip_prefix("job ").or(what.strip_prefix("schedule "));
            name.is_some_and(|name| violation.contains(name))
        };
        let by_hand = self.foreign.is_some()
            && ["R12: ", "R14: ", "R23: "].iter().any(|rule| violation.contains(rule))
            && log
                .iter()
                .any(|it| matches!(&it.record, Record::Foreign { what } if is_named(what)));
        let half_done = |record: &Record| matches!(record, Record::Rights { half_done: true, .. });
        by_hand
            || self.outage == Outage::Rights
                && ["R10: ", "R23: ", "P34: "].iter().any(|rule| violation.starts_with(rule))
                && log.iter().any(|it| half_done(&it.record))
    }
}

fn bad_schedules(server: &Server) -> Vec<String> {
    let names: Vec<String> = server.ask(&["HKEYS", &key("schedules")]);
    names.into_iter().filter(|name| name.starts_with("bad")).collect()
}

fn set_aside(server: &Server) -> Result<Vec<JobId>> {
    let ids: Vec<Vec<u8>> =
        redis::cmd("HKEYS").arg(key("unreadable")).query(&mut server.connection())?;
    let id = |bytes: &[u8]| Ok(JobId::from_u128(u128::from_be_bytes(bytes.try_into()?)));
    ids.iter().filter_map(|name| name.strip_prefix(b"jobs:")).map(id).collect()
}
