//! Questions to the store: some jobs (from the answers of the script `info.lua`), pages of jobs, counts, schedules,
//! and the history, which `scripts/history.lua` writes.

use std::time::Duration;

use redis::{ToRedisArgs, Value};

use super::Redis;
use super::decode::{Fault, array, bytes, number, score, text};
use super::groups::group_bytes;
use super::keys::Keys;
use super::protocol::{self, By};
use super::records::{
    damaged, id_bytes, id_of, read_deaths, read_fence, read_record, read_schedule,
};
use super::scripts::{BYTES, ITEMS, Name};
use crate::store::{
    Answer, Ending, HistoryPart, JobSet, KindGauges, Op, Page, PageKey, PageRequest,
    StoredSchedule, Unreadable, history, results_page,
};
use crate::values::error::StoreError;
use crate::values::group::GroupId;
use crate::values::id::JobId;
use crate::values::info::{Counts, DeadByError, JobInfo, JobState, MemberResult, Number};
use crate::values::job::Shown;
use crate::values::limit::Tokens;
use crate::values::node::{NodeInfo, StoredNode};
use crate::values::time::Millis;

/// The job of a question.
enum Which<'a> {
    Id(JobId),
    Key(&'a str),
}

/// The counts of a queue.
pub(super) struct Counted {
    pub(super) counts: Counts,
    pub(super) kinds: Vec<(String, u64)>,
    gauges: Vec<KindGauges>,
    /// The numbers of jobs that are dead or kept, of records and of fences, which must agree with the counts.
    pub(super) sizes: [u64; 3],
    /// How many more places in lanes there are than jobs in lanes.
    pub(super) empty_places: i64,
    /// How many more places of claims there are than claims.
    pub(super) leaked_places: i64,
}

impl Redis {
    pub(super) fn question(&mut self, op: &Op) -> Result<Answer, Fault> {
        Ok(match op {
            Op::Get(id) => {
                Answer::Info(self.infos(&[Which::Id(*id)])?.pop().flatten().map(Box::new))
            }
            Op::GetKey(key) => {
                // A dead job has no key.
                let found = self.infos(&[Which::Key(key)])?.pop().flatten();
                let found = found.filter(|job| job.key.as_deref() == Some(key));
                Answer::Info(found.map(Box::new))
            }
            Op::Page(request) => Answer::Page(match request.set {
                JobSet::Alive => self.alive_page(request)?,
                JobSet::Claimed => self.claimed_page(request)?,
                JobSet::Ended(_) => self.ended_page(request)?,
            }),
            Op::Claimed => {
                let mut ids: Vec<JobId> =
                    self.claimed_ids()?.into_iter().map(|(id, ..)| id).collect();
                ids.sort_unstable();
                let which: Vec<Which<'_>> = ids.into_iter().map(Which::Id).collect();
                let jobs = self.infos(&which)?.into_iter().flatten().filter(is_claimed).collect();
                Answer::Page(Page { jobs, next: None })
            }
            Op::Counts => Answer::Counts(self.counted()?.counts),
            Op::Kinds => Answer::Kinds(self.counted()?.kinds),
            Op::Gauges => Answer::Gauges(self.counted()?.gauges),
            Op::DeadByError(most) => Answer::DeadByError(self.dead_by_error(*most)?),
            Op::Settings => Answer::Settings(self.settings()?),
            Op::Tokens(scopes) => Answer::Tokens(self.tokens(scopes)?),
            Op::Nodes => Answer::Nodes(self.nodes()?),
            Op::Group(id) => Answer::Group(self.group(*id)?.map(Box::new)),
            Op::Groups(most) => Answer::Groups(self.latest_groups(*most)?),
            Op::Members(id, after) => Answer::Members(self.members(*id, *after)?),
            Op::Results(id, after) => Answer::Results(self.results(*id, *after)?),
            Op::History { kind, from, to } => {
                Answer::History(self.read_history(kind.as_deref(), *from, *to)?)
            }
            Op::Schedules => Answer::Schedules(self.schedules()?),
            _ => Answer::Done,
        })
    }

    fn infos(&mut self, which: &[Which<'_>]) -> Result<Vec<Option<JobInfo>>, Fault> {
        let mut infos = Vec::new();
        while infos.len() < which.len() {
            infos.extend(self.first_infos(&which[infos.len()..])?);
        }
        Ok(infos)
    }

    /// Asks once: returns the first of these jobs, at least one, up to [`BYTES`].
    fn first_infos(&mut self, which: &[Which<'_>]) -> Result<Vec<Option<JobInfo>>, Fault> {
        let mut args = vec![BYTES.to_string().into_bytes()];
        args.extend(which.iter().take(ITEMS).flat_map(|which| match which {
            Which::Id(id) => [By::Id.word().into(), id_bytes(*id).to_vec()],
            Which::Key(key) => [By::Key.word().into(), key.as_bytes().to_vec()],
        }));
        let reply = self.run(Name::Info, &args)?;
        let found = array(&reply[2])?;
        if found.is_empty() {
            return Err(damaged("is no answer to a question").into());
        }
        // A record that the script can read and this program cannot is as if there were no such job.
        found.iter().map(|job| Ok(info(array(job)?).unwrap_or(None))).collect()
    }

    /// Returns the page of the jobs at the first `limit` of these positions, up to [`BYTES`].
    fn page_at(&mut self, mut found: Vec<PageKey>, limit: usize) -> Result<Page, Fault> {
        found.truncate(limit);
        if found.is_empty() {
            return Ok(Page::default());
        }
        let which: Vec<Which<'_>> = found.iter().map(|(_, id)| Which::Id(*id)).collect();
        let infos = self.first_infos(&which)?;
        let next = found.get(infos.len() - 1).copied();
        let next = next.filter(|_| found.len() == limit || infos.len() < found.len());
        Ok(Page { jobs: infos.into_iter().flatten().collect(), next })
    }

    /// Returns id, due time and kind of every claimed job.
    pub(super) fn claimed_ids(&mut self) -> Result<Vec<(JobId, Millis, String)>, Fault> {
        let mut claimed = Vec::new();
        for from in (0..).step_by(ITEMS) {
            let args = [set_arg(protocol::PageSet::Claimed), number_arg(ITEMS), number_arg(from)];
            let reply = self.run(Name::Page, &args)?;
            let found = array(&reply[2])?;
            for pair in found.chunks(2) {
                let [id, fence] = pair else { continue };
                // A claim without a fence is left out. The poll after its lease ends repairs it.
                let Ok(claim) = bytes(fence).and_then(read_fence) else { continue };
                let Ok(id) = bytes(id).and_then(id_of) else { continue };
                claimed.push((id, claim.due, claim.kind));
            }
            if found.len() < 2 * ITEMS {
                break;
            }
        }
        Ok(claimed)
    }

    fn alive_page(&mut self, request: &PageRequest) -> Result<Page, Fault> {
        let (from, after) = match request.after {
            Some((due, id)) if due >= request.from => (due, Some(id)),
            _ => (request.from, None),
        };
        let limit = request.limit.min(ITEMS);
        let mut args = vec![set_arg(protocol::PageSet::Pending), number_arg(limit)];
        args.extend([time_arg(from), time_arg(request.to)]);
        args.push(after.map_or(Vec::new(), |id| id_bytes(id).to_vec()));
        let claimed = self.claimed_ids()?;
        // If a kind is new to this process, `run` learns it and sends the call again with its key.
        match &request.kind {
            Some(kind) => args.push(kind.clone().into_bytes()),
            None => {
                args.extend(self.counted()?.kinds.into_iter().map(|(kind, _)| kind.into_bytes()))
            }
        }
        let mut found = positions(&self.run(Name::Page, &args)?[2])?;
        let wanted = claimed.into_iter().filter(|(id, due, kind)| request.has_due(*due, *id, kind));
        found.extend(wanted.map(|(id, due, _)| (due, id)));
        found.sort_unstable();
        found.dedup_by_key(|(_, id)| *id);
        let mut page = self.page_at(found, limit)?;
        page.jobs.retain(|job| job.ended.is_none());
        page.jobs.sort_by(|a, b| a.due.cmp(&b.due).then(a.id.cmp(&b.id)));
        Ok(page)
    }

    fn claimed_page(&mut self, request: &PageRequest) -> Result<Page, Fault> {
        let limit = request.limit.min(ITEMS);
        let claimed = self.claimed_ids()?.into_iter();
        let wanted = claimed.filter(|(id, due, kind)| request.has_due(*due, *id, kind));
        let mut found: Vec<PageKey> = wanted.map(|(id, due, _)| (due, id)).collect();
        found.sort_unstable();
        let mut page = self.page_at(found, limit)?;
        page.jobs.retain(is_claimed);
        Ok(page)
    }

    /// Returns a page of jobs that have ended, the latest end first.
    fn ended_page(&mut self, request: &PageRequest) -> Result<Page, Fault> {
        let limit = request.limit.min(ITEMS);
        let kind = request.kind.as_deref().unwrap_or_default();
        let mut found = Vec::new();
        for list in request.set.lists() {
            found.extend(self.ended_ids(list, kind, request.after, limit)?);
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        let mut page = self.page_at(found, limit)?;
        page.jobs.retain(|job| {
            let due = Millis::present(job.due);
            let is_in_set = Ending::ALL
                .into_iter()
                .any(|ending| ending.state() == job.state && request.set.has(ending));
            is_in_set && (request.from..=request.to).contains(&due)
        });
        Ok(page)
    }

    /// Returns the places of jobs in lists of this ending, the latest first.
    pub(super) fn ended_ids(
        &mut self,
        list: Ending,
        kind: &str,
        after: Option<(Millis, JobId)>,
        limit: usize,
    ) -> Result<Vec<(Millis, JobId)>, Fault> {
        let place =
            |(at, id): (Millis, JobId)| [&at.get().to_be_bytes()[..], &id_bytes(id)[..]].concat();
        let mut args = vec![set_arg(protocol::PageSet::Ended), number_arg(limit)];
        args.extend([number_arg(list as usize), kind.into()]);
        args.push(after.map(place).unwrap_or_default());
        let mut found = positions(&self.run(Name::Page, &args)?[2])?;
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.truncate(limit);
        Ok(found)
    }

    /// Returns a page of the results of a group behind this member.
    fn results(
        &mut self,
        id: GroupId,
        after: Option<JobId>,
    ) -> Result<Option<Vec<MemberResult>>, Fault> {
        let mut args =
            vec![set_arg(protocol::PageSet::Results), number_arg(ITEMS), number_arg(BYTES)];
        args.push(group_bytes(id).to_vec());
        args.push(after.map_or(Vec::new(), |id| id_bytes(id).to_vec()));
        let reply = self.run(Name::Page, &args)?;
        let row = |pair: &[Value]| match pair {
            [id, row] => Ok((bytes(id).and_then(id_of)?, bytes(row)?.to_vec())),
            _ => Err(damaged("is no result")),
        };
        Ok(match &reply[2] {
            Value::Nil => None,
            rows => Some(results_page(array(rows)?.chunks(2).map(row))?),
        })
    }

    /// Returns the groups of dead jobs, the largest first.
    fn dead_by_error(&mut self, most: usize) -> Result<Vec<DeadByError>, Fault> {
        let Some(last) = most.checked_sub(1) else { return Ok(Vec::new()) };
        let rows = self.ask("ZREVRANGE", Keys::dead_by_error, (0, last, "WITHSCORES"))?;
        let rows = array(&rows)?;
        let mut groups = Vec::new();
        let names: Vec<&Value> = rows.iter().step_by(2).collect();
        let mut deaths = Vec::new();
        for names in names.chunks(TIMES_AT_ONCE) {
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(self.keys.counters());
            for group in names {
                cmd.arg([b"died:", bytes(group)?].concat());
            }
            deaths.extend(
                array(&self.plain(cmd)?)?.iter().map(|its| bytes(its).ok().and_then(read_deaths)),
            );
        }
        for (pair, deaths) in rows.chunks(2).zip(deaths) {
            let [group, jobs] = pair else { continue };
            let Some((length, rest)) = bytes(group)?.split_first() else { continue };
            let Some((kind, error)) = rest.split_at_checked(usize::from(*length)) else { continue };
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            groups.push(DeadByError {
                kind: text(kind),
                error: text(error),
                jobs: u64::try_from(score(jobs)?).unwrap_or(0),
                first_died: deaths.map(|[first, _]| first.to_system()),
                last_died: deaths.map(|[_, last]| last.to_system()),
            });
        }
        groups.sort_by(|a, b| b.jobs.cmp(&a.jobs).then_with(|| a.cmp(b)));
        Ok(groups)
    }

    fn nodes(&mut self) -> Result<Vec<NodeInfo>, Fault> {
        let rows = self.ask("HVALS", Keys::nodes, NOTHING)?;
        let node = |row: &Value| {
            let row = text(row).ok()?;
            let (seen, node) = row.split_once(' ')?;
            StoredNode::info(node, Millis::clamped(seen.parse().ok()?))
        };
        let mut nodes: Vec<NodeInfo> = array(&rows)?.iter().filter_map(node).collect();
        nodes.sort_by(|a, b| (&a.host, a.pid, a.started).cmp(&(&b.host, b.pid, b.started)));
        Ok(nodes)
    }

    fn tokens(&mut self, scopes: &[String]) -> Result<Vec<Option<Tokens>>, Fault> {
        if scopes.is_empty() {
            return Ok(Vec::new());
        }
        let fields: Vec<String> = scopes.iter().map(|scope| format!("\0t{scope}")).collect();
        let found = self.ask("HMGET", Keys::lanes, fields)?;
        let tokens = |found: &Value| text(found).ok().and_then(|text| Tokens::from_text(&text));
        Ok(array(&found)?.iter().map(tokens).collect())
    }

    fn settings(&mut self) -> Result<Vec<(String, String)>, Fault> {
        let setting = |pair: &[Value]| match pair {
            [name, value] => Some((text(name).ok()?, text(value).ok()?)),
            _ => None,
        };
        let mut settings: Vec<(String, String)> = Vec::new();
        for key in [Keys::settings as fn(&Keys) -> &str, Keys::flow] {
            let rows = self.ask("HGETALL", key, NOTHING)?;
            settings.extend(array(&rows)?.chunks(2).filter_map(setting));
        }
        // The field without a name is a mark, and no setting.
        settings.retain(|(name, _)| !name.is_empty());
        settings.sort_unstable();
        Ok(settings)
    }

    pub(super) fn counted(&mut self) -> Result<Counted, Fault> {
        let reply = self.run(Name::Count, &[])?;
        let at = |n: usize| number(&reply[n]).map(|number| number as u64);
        let (pending, running) = (at(2)?, at(3)?);
        let oldest = u64::try_from(number(&reply[12])?).ok();
        let counts = Counts {
            pending,
            claimed: 0,
            running,
            dead: at(4)?,
            schedules: at(5)?,
            overdue: Number { count: at(11)?, is_exact: true },
            oldest_overdue: oldest.map(Duration::from_millis),
        };
        let mut kinds = Vec::new();
        for pair in array(&reply[6])?.chunks(2) {
            if let [kind, jobs] = pair {
                let Ok(kind) = text(kind) else { continue };
                kinds.push((kind, text(jobs).ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(0)));
            }
        }
        kinds.sort_unstable();
        let mut gauges = Vec::new();
        for of_kind in array(&reply[13])?.chunks(5) {
            let [kind, pending, dead, overdue, oldest] = of_kind else { continue };
            let whole = |value| number(value).map(|whole| whole as u64);
            let Ok(kind) = text(kind) else { continue };
            // Damage in a count is for `check` to report.
            let alive = kinds.iter().find(|(its, _)| *its == kind).map_or(0_u64, |(_, jobs)| *jobs);
            let pending = whole(pending)?;
            gauges.push(KindGauges {
                kind,
                pending,
                claimed: alive.saturating_sub(pending),
                dead: whole(dead)?,
                overdue: whole(overdue)?,
                oldest_overdue: u64::try_from(number(oldest)?).ok().map(Duration::from_millis),
            });
        }
        gauges.sort_unstable_by(|a, b| a.kind.cmp(&b.kind));
        let (sizes, empty_places) = ([at(7)?, at(8)?, at(9)?], number(&reply[14])?);
        let leaked_places = number(&reply[15])?;
        Ok(Counted { counts, kinds, gauges, sizes, empty_places, leaked_places })
    }

    fn schedules(&mut self) -> Result<Vec<StoredSchedule>, Fault> {
        let rows = self.ask("HGETALL", Keys::schedules, NOTHING)?;
        let mut schedules = Vec::new();
        for pair in array(&rows)?.chunks(2) {
            if let [name, row] = pair {
                let read = text(name).and_then(|name| read_schedule(name, bytes(row)?));
                match read {
                    Ok(schedule) => schedules.push(schedule),
                    // A schedule that cannot be read is reported, and the others are returned.
                    Err(error) => {
                        let name = String::from_utf8_lossy(bytes(name)?);
                        let what = format!("schedule {name:?}");
                        self.unreadable.push(Unreadable { what, error });
                    }
                }
            }
        }
        schedules.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(schedules)
    }

    /// Sends one command that is no script, about one key.
    pub(super) fn ask(
        &mut self,
        command: &str,
        key: fn(&Keys) -> &str,
        args: impl ToRedisArgs,
    ) -> Result<Value, Fault> {
        let mut cmd = redis::cmd(command);
        cmd.arg(key(&self.keys)).arg(args);
        self.plain(cmd)
    }

    /// Sends one command that is no script.
    pub(super) fn plain(&mut self, cmd: redis::Cmd) -> Result<Value, Fault> {
        let (mut answers, ..) = self.connection.send(&[cmd])?;
        match answers.pop() {
            Some(Value::ServerError(error)) => Err(self.name_the_key(Fault::of_server(&error))),
            Some(value) => Ok(value),
            None => Err(Fault { again: true, ..damaged("is missing").into() }),
        }
    }
}

/// Reads ids, each with its time behind it.
fn positions(reply: &Value) -> Result<Vec<PageKey>, StoreError> {
    let position =
        |pair: &[Value]| Ok((Millis::clamped(score(&pair[1])?), id_of(bytes(&pair[0])?)?));
    array(reply)?.chunks_exact(2).map(position).collect()
}

fn is_claimed(job: &JobInfo) -> bool {
    matches!(job.state, JobState::Running | JobState::Claimed)
}

pub(super) fn set_arg(set: protocol::PageSet) -> Vec<u8> {
    set.word().into()
}

pub(super) fn number_arg(number: usize) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn time_arg(time: Millis) -> Vec<u8> {
    time.get().to_string().into_bytes()
}

/// The arguments of a command that has none besides its key.
const NOTHING: &[&str; 0] = &[];

/// How many groups of dead jobs one command asks for their times.
const TIMES_AT_ONCE: usize = 256;

/// The number of a fence that is less than this tells no time: no clock of a server reads the year 1970.
const LEAST_MICROS: i64 = 1_000_000_000_000;

/// Returns when the jobs with this number in their fences were claimed. Small numbers tell no time: such claims are
/// numbered from one.
fn time_of_fence(number: &Value) -> Result<Option<Millis>, StoreError> {
    let micros = score(number)?;
    Ok((micros >= LEAST_MICROS).then(|| Millis::clamped(micros / 1000)))
}

/// Reads a time in milliseconds, or an empty text.
fn time_or_none(time: &Value) -> Result<Option<Millis>, StoreError> {
    match bytes(time)? {
        b"" => Ok(None),
        _ => score(time).map(|time| Some(Millis::clamped(time))),
    }
}

/// Reads an answer. It is empty if the job does not exist, or if the script could not read its record.
pub(super) fn info(fields: &[Value]) -> Result<Option<JobInfo>, StoreError> {
    let [id, state, due, own, record, progress, claim @ ..] = fields else { return Ok(None) };
    let (claimed, lease_ends, node) = match claim {
        [number, lease_end, node] => {
            let node = String::from_utf8_lossy(bytes(node)?).into_owned();
            let node = Some(node).filter(|node| !node.is_empty());
            (time_of_fence(number)?, time_or_none(lease_end)?, node)
        }
        _ => (None, None, None),
    };
    let record = read_record(bytes(record)?)?;
    let state = match (&record.end, bytes(state)?) {
        (Some(end), _) => end.ending.state(),
        (None, b"running") => JobState::Running,
        (None, b"claimed") => JobState::Claimed,
        (None, _) => JobState::Pending,
    };
    let ended = record.end.as_ref().map(|end| end.at.to_system());
    let (id, due) = (id_of(bytes(id)?)?, Millis::clamped(score(due)?));
    let mut shown = Shown::read(record.extra.as_deref());
    shown.group = shown.group.filter(|_| record.is_member);
    let of_run = Some(bytes(progress)?.to_vec()).filter(|progress| !progress.is_empty());
    shown.progress = of_run.or(shown.progress);
    Ok(Some(JobInfo {
        key: record.key.filter(|_| bytes(own).is_ok_and(|own| own == b"1")),
        claimed: claimed.map(Millis::to_system),
        lease_ends: lease_ends.map(Millis::to_system),
        node,
        died: ended.filter(|_| state == JobState::Dead),
        ended,
        took: record.end.as_ref().map(|end| Duration::from_millis(end.took)),
        result: record.end.and_then(|end| end.result),
        payload: record.payload,
        ..record.tries.info(id, record.kind, state, due, shown)
    }))
}

impl Redis {
    pub(super) fn read_history(
        &mut self,
        kind: Option<&str>,
        from: Millis,
        to: Millis,
    ) -> Result<Vec<HistoryPart>, Fault> {
        history::read(kind, (from, to), |fields| self.history_rows(fields))
    }

    fn history_rows(&mut self, fields: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Fault> {
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.ask("HMGET", Keys::history, fields)?;
        let row = |row: &Value| match row {
            Value::Nil => Ok(None),
            row => Ok(Some(bytes(row)?.to_vec())),
        };
        array(&rows)?.iter().map(row).collect()
    }
}
