//! Tests how completed jobs leave the table of jobs: exactly those that have completed, whichever lie between them.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::support::{apply, claim, completed, new_job, now, opened, selected};
use crate::store::sqlite::Sqlite;
use crate::store::{Answer, Batch, Claimed, End, Finish, Inserted, NewJob, Op, Store};
use crate::values::id::JobId;
use crate::values::setting::Keep;

type KeptRow = (JobId, i64, u64, bool, Option<Vec<u8>>, Vec<u8>);

fn due_before(kind: &str, ms: u64) -> NewJob {
    new_job(kind, now().minus(Duration::from_millis(ms)))
}

/// Makes a file, and inserts and claims `many` jobs.
fn with_claims(many: u64) -> (Sqlite, Vec<Claimed>) {
    let mut store = opened(&["mail", "push"], now());
    let jobs = (0..many).map(|n| due_before("mail", n)).collect();
    apply(&mut store, &[Op::InsertMany(jobs)], None, now());
    let claimed = claim(&mut store, 1_000, now());
    (store, claimed)
}

/// Ends runs of a kind that keeps jobs, or none.
fn ends<'a>(claimed: impl IntoIterator<Item = &'a Claimed>, keep: Option<Keep>) -> Vec<Op> {
    let end = |job| Op::Finish(Finish { keep, ..completed(job) });
    claimed.into_iter().map(end).collect()
}

/// Returns the ids of a table.
fn ids(store: &Sqlite, table: &str) -> BTreeSet<JobId> {
    let conn = store.conn.as_ref().unwrap();
    let mut rows = conn.prepare(&format!("SELECT id FROM tickwheel_{table}")).unwrap();
    let id =
        |row: &rusqlite::Row<'_>| row.get(0).map(|id| JobId::from_u128(u128::from_be_bytes(id)));
    rows.query_map([], id).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Returns of each kept job, by its id: due time, milliseconds of its run, whether its caller chose the id, result,
/// payload.
fn kept_rows(store: &Sqlite) -> Vec<KeptRow> {
    let conn = store.conn.as_ref().unwrap();
    let columns = "id, due, took, callers_id, result, payload";
    let mut rows =
        conn.prepare(&format!("SELECT {columns} FROM tickwheel_ended ORDER BY id")).unwrap();
    let kept = |row: &rusqlite::Row<'_>| {
        let id = JobId::from_u128(u128::from_be_bytes(row.get(0)?));
        Ok((id, row.get(1)?, row.get::<_, i64>(2)? as u64, row.get(3)?, row.get(4)?, row.get(5)?))
    };
    rows.query_map([], kept).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Returns how many jobs the file counts.
fn counted(store: &mut Sqlite) -> u64 {
    let answer = apply(store, &[Op::Kinds], None, now()).answers.remove(0);
    let Answer::Kinds(kinds) = answer else { panic!("no kinds") };
    kinds.into_iter().map(|(_, jobs)| jobs).sum()
}

/// How a claimed job goes on.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fate {
    Completes,
    /// The job is kept. The fields are the milliseconds of its run, and its result.
    IsKept(u64, Option<u8>),
    Snoozes,
    StaysClaimed,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        20 => Just(Fate::Completes),
        // Neighbours are mostly kept alike.
        20 => prop_oneof![9 => Just(0), 1 => Just(3)].prop_map(|took| Fate::IsKept(took, None)),
        2 => (0..2_u64, prop::option::of(0..2_u8)).prop_map(|(took, result)| Fate::IsKept(took, result)),
        1 => Just(Fate::Snoozes),
        1 => Just(Fate::StaysClaimed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Runs end in any order. Between the jobs that complete lie jobs that snooze, run on or are pending. Exactly the
    /// jobs that complete leave the table of jobs, and the file counts the rest. A kept job has its own id, due time
    /// and payload, and the time and the result of its run.
    #[test]
    fn completed_jobs_leave_and_no_other_does(
        jobs in vec((any::<bool>(), 0u64..4, fate(), any::<u32>()), 1..300),
        pending in vec(0u64..4, 0..4),
    ) {
        let mut store = opened(&["mail", "push"], now());
        let new = |(n, (mail, before, ..)): (usize, &(bool, u64, Fate, u32))| NewJob {
            payload: n.to_string().into_bytes(),
            callers_id: n % 7 == 0,
            ..due_before(if *mail { "mail" } else { "push" }, *before)
        };
        let new_jobs: Vec<NewJob> = jobs.iter().enumerate().map(new).collect();
        let named = new_jobs.iter().filter(|job| job.callers_id).map(|job| job.id);
        let named: BTreeSet<JobId> = named.collect();
        apply(&mut store, &[Op::InsertMany(new_jobs)], None, now());
        let claimed = claim(&mut store, 1_000, now());
        prop_assert_eq!(claimed.len(), jobs.len());
        // These are inserted later, and may lie between the others.
        let pending = pending.into_iter().map(|before| due_before("mail", before)).collect();
        apply(&mut store, &[Op::InsertMany(pending)], None, now());

        let (mut left, mut kept) = (ids(&store, "job"), Vec::new());
        let mut ends: Vec<_> = claimed.iter().zip(&jobs).collect();
        ends.sort_by_key(|(_, (.., order))| *order);
        let mut ops = Vec::new();
        for (job, (_, _, fate, _)) in ends {
            let mut finish = completed(job);
            match fate {
                Fate::Completes => {}
                Fate::IsKept(took, result) => {
                    let result = result.map(|n| vec![n]);
                    finish.keep = Some(Keep::last(1_000));
                    (finish.took, finish.result) = (*took, result.clone());
                    let due = job.due.get();
                    let payload = job.payload.clone();
                    let callers_id = named.contains(&job.id);
                    kept.push((job.id, due, *took, callers_id, result, payload));
                }
                Fate::Snoozes => finish.end = End::Snoozed { due: now() },
                Fate::StaysClaimed => continue,
            }
            if *fate != Fate::Snoozes {
                left.remove(&job.id);
            }
            ops.push(Op::Finish(finish));
        }
        apply(&mut store, &ops, None, now());
        prop_assert_eq!(&ids(&store, "job"), &left);
        if !kept.is_empty() {
            kept.sort();
            prop_assert_eq!(kept_rows(&store), kept);
        }
        prop_assert_eq!(counted(&mut store), left.len() as u64);
        store.check().unwrap();
    }
}

/// A user has deleted the row of a claimed job by hand. When that job ends, it is neither counted nor kept. The row of
/// another job lies between those that end. That job still runs, so its row stays. The number of rows alone would not
/// tell: it is the number of the jobs that end.
#[test]
fn job_that_runs_on_stays_although_a_row_beside_it_is_gone() {
    for keep in [None, Some(Keep::last(1_000))] {
        let (mut store, claimed) = with_claims(20);
        let (gone, runs_on) = (claimed[7].id, claimed[9].id);
        let conn = store.conn.as_ref().unwrap();
        let row = [gone.to_u128().to_be_bytes()];
        conn.execute("DELETE FROM tickwheel_job WHERE id = ?1", row).unwrap();
        let ended = ends(claimed.iter().filter(|job| job.id != runs_on), keep);
        apply(&mut store, &ended, None, now());
        assert_eq!(ids(&store, "job"), BTreeSet::from([runs_on]));
        assert_eq!(counted(&mut store), 2);
        if keep.is_some() {
            let ended = claimed.iter().map(|job| job.id).filter(|id| ![gone, runs_on].contains(id));
            assert_eq!(ids(&store, "ended"), ended.collect());
        }
        let kept: i64 = selected(&store, "SELECT kept FROM tickwheel_kind WHERE name = 'mail'");
        assert_eq!(kept, if keep.is_some() { 18 } else { 0 });
    }
}

/// A row without an id lies among jobs that complete. It stops none of them.
#[test]
fn row_without_an_id_stops_no_completed_job() {
    let (mut store, claimed) = with_claims(20);
    let conn = store.conn.as_ref().unwrap();
    let columns = "failures, interruptions, attempts, callers_id, payload";
    conn.execute(
        &format!(
            "INSERT INTO tickwheel_job (kind, due, id, {columns}) \
             SELECT kind, due, 'no id', {columns} FROM tickwheel_job LIMIT 1 OFFSET 9"
        ),
        [],
    )
    .unwrap();
    apply(&mut store, &ends(&claimed, None), None, now());
    assert_eq!(selected::<String>(&store, "SELECT id FROM tickwheel_job"), "no id");
}

/// The row of a kept job has the columns that its row had as a job.
#[test]
fn neighbours_are_kept_as_their_rows_are() {
    let (mut store, claimed) = with_claims(20);
    let conn = store.conn.as_ref().unwrap();
    // Each job has a due time of its own, in milliseconds.
    let n = "due % 1000";
    let set = format!(
        "UPDATE tickwheel_job SET failures = {n}, interruptions = {n} + 100, attempts = {n} + 200, \
         part = 'part ' || {n}, key = 'key ' || {n}, errors = 'errors ' || {n}, \
         extra = CAST('extra ' || {n} AS BLOB), payload = CAST('payload ' || {n} AS BLOB)"
    );
    conn.execute(&set, []).unwrap();
    let columns =
        "id, kind, due, failures, interruptions, attempts, part, key, errors, extra, payload";
    let rows = |store: &Sqlite, table: &str| {
        let conn = store.conn.as_ref().unwrap();
        let sql = format!("SELECT {columns} FROM tickwheel_{table} ORDER BY id");
        let mut rows = conn.prepare(&sql).unwrap();
        let row = |row: &rusqlite::Row<'_>| (0..11).map(|column| row.get(column)).collect();
        let rows = rows.query_map([], row).unwrap();
        rows.collect::<rusqlite::Result<Vec<Vec<rusqlite::types::Value>>>>().unwrap()
    };
    let before = rows(&store, "job");
    apply(&mut store, &ends(&claimed, Some(Keep::last(1_000))), None, now());
    assert_eq!(rows(&store, "ended"), before);
    assert!(ids(&store, "job").is_empty());
}

/// A trigger of a user prevents the insert of one kept job. Then the whole transaction is refused.
#[test]
fn ends_are_refused_if_a_kept_job_cannot_be_written() {
    let (mut store, claimed) = with_claims(20);
    let ops = ends(&claimed, Some(Keep::last(1_000)));
    apply(&mut store, &ops[..1], None, now());
    let id = claimed[9].id.to_u128();
    let trigger = format!(
        "CREATE TRIGGER mine BEFORE INSERT ON tickwheel_ended WHEN hex(NEW.id) = '{id:032X}' \
         BEGIN SELECT RAISE(IGNORE); END"
    );
    store.conn.as_ref().unwrap().execute_batch(&trigger).unwrap();
    let (claim, synced, awaited, until) = (None, false, false, None);
    let batch = Batch { number: 0, ops: &ops[1..], claim, synced, awaited, until, now: now() };
    let error = store.apply(&batch).err().unwrap().error.to_string();
    assert!(error.contains("18 of 19"), "{error}");
}

/// A job ends, and the same transaction inserts jobs with its id and with its key: the id is known, and the key is
/// free.
#[test]
fn insert_after_the_end_of_a_job_knows_its_id_and_finds_its_key_free() {
    // The library made an id, so nothing remembers it unless its job is kept.
    for (keep, unnamed) in [(None, Inserted::New), (Some(Keep::last(1_000)), Inserted::Known)] {
        let mut store = opened(&["mail", "push"], now());
        let mut jobs: Vec<NewJob> = (0..20).map(|_| due_before("mail", 1)).collect();
        let key = Some(("order".to_owned(), crate::store::IfTaken::Leave));
        jobs[3].callers_id = true;
        jobs[5].key.clone_from(&key);
        let (again, mut keyed) = (jobs[3].clone(), due_before("mail", 1));
        let forgotten = NewJob { callers_id: true, ..jobs[8].clone() };
        keyed.key = key;
        let mut left = BTreeSet::from([keyed.id]);
        left.extend((unnamed == Inserted::New).then_some(forgotten.id));
        apply(&mut store, &[Op::InsertMany(jobs)], None, now());
        let mut ops = ends(&claim(&mut store, 1_000, now()), keep);
        ops.extend([Op::Insert(again.clone()), Op::Insert(forgotten), Op::Insert(keyed)]);
        let answers = apply(&mut store, &ops, None, now()).answers;
        let inserted: Vec<&Inserted> = answers
            .iter()
            .filter_map(|answer| match answer {
                Answer::Inserted(inserted) => Some(inserted),
                _ => None,
            })
            .collect();
        assert!(inserted.iter().copied().eq(&[Inserted::Known, unnamed, Inserted::New]));
        assert_eq!(ids(&store, "job"), left);
        store.check().unwrap();
        let answers = apply(&mut store, &[Op::Insert(again)], None, now()).answers;
        assert!(matches!(answers[..], [Answer::Inserted(Inserted::Known)]), "{answers:?}");
    }
}

/// A kept job makes room for another one, and then its id is free, also for an insert of the same transaction.
#[test]
fn insert_after_the_end_of_a_job_finds_the_id_of_a_trimmed_job_free() {
    let mut store = opened(&["mail", "push"], now());
    let first = due_before("mail", 1);
    let run = |store: &mut Sqlite, job: NewJob, more: Option<NewJob>| {
        apply(store, &[Op::Insert(job)], None, now());
        let mut ops = ends(&claim(store, 1, now()), Some(Keep::last(1)));
        ops.extend(more.map(Op::Insert));
        apply(store, &ops, None, now()).answers
    };
    run(&mut store, first.clone(), None);
    let again = NewJob { callers_id: true, ..first };
    let answers = run(&mut store, due_before("mail", 1), Some(again));
    assert!(matches!(answers[1], Answer::Inserted(Inserted::New)), "{answers:?}");
    store.check().unwrap();
}
