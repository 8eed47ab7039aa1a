//! Tests the cost of lanes on a file, in steps of SQLite's machine: for jobs without a partition, and for jobs beside
//! blocked ones.

use std::sync::Arc;

use rusqlite::StatementStatus;

use super::plans::{Statement, statements};
use super::support::{now, opened};
use crate::store::sqlite::Sqlite;
use crate::store::{Batch, BatchOutcome, ClaimRequest, End, Finish, NewJob, Op, Store};
use crate::values::id::JobId;
use crate::values::job::Extra;
use crate::values::limit::Limit;
use crate::values::stored_limits::{LimitScope, Limits};
use crate::values::time::Millis;

const KIND: &str = "mail";

fn apply(store: &mut Sqlite, ops: &[Op], limits: Option<&Limits>) -> BatchOutcome {
    apply_at(store, ops, limits, now())
}

fn apply_at(store: &mut Sqlite, ops: &[Op], limits: Option<&Limits>, now: Millis) -> BatchOutcome {
    let claim = limits.map(|limits| {
        let request = ClaimRequest::new(now, 500, 500, Vec::new());
        ClaimRequest { limits: limits.clone(), ..request }
    });
    let (synced, awaited, until) = (false, false, None);
    store.apply(&Batch { number: 0, ops, claim, synced, awaited, until, now }).unwrap()
}

fn job(partition: Option<&str>) -> NewJob {
    let extra = Extra { partition: partition.map(Arc::from), ..Extra::default() }.boxed();
    let (id, kind) = (JobId::new(), Arc::from(KIND));
    let payload = b"{}".to_vec();
    NewJob { id, kind, due: now(), key: None, callers_id: false, extra, payload }
}

/// Returns how many steps all statements have taken since the last call.
fn steps(store: &Sqlite) -> i64 {
    let conn = store.conn.as_ref().unwrap();
    let of = |Statement { text, .. }| {
        let statement = conn.prepare_cached(&text).ok()?;
        Some(i64::from(statement.reset_status(StatementStatus::VmStep)))
    };
    statements(&store.sql).into_iter().filter_map(of).sum()
}

/// Inserts, claims and ends `many` jobs, each in commits of its own, and returns the steps of each.
fn lives(store: &mut Sqlite, limits: &Limits, partition: Option<&str>, many: i64) -> i64 {
    steps(store);
    for _ in 0..many {
        apply(store, &[Op::Insert(job(partition))], None);
        let outcome = apply(store, &[], Some(limits));
        let [claimed] = &outcome.claimed[..] else { panic!("{} claimed", outcome.claimed.len()) };
        let finish = Finish::of(claimed.id, claimed.fence, End::Completed);
        apply(store, &[Op::Finish(finish)], None);
    }
    steps(store) / many
}

fn one_each() -> Limits {
    let each = LimitScope::Each(KIND.to_owned());
    Limits::of(&[(each.setting(), Limit::running(1).to_text())], &[])
}

/// Puts `many` jobs of one partition before all others. One of them is claimed and does not end.
fn block(store: &mut Sqlite, limits: &Limits, many: usize) {
    let jobs = (0..many).map(|_| job(Some("blocked"))).collect();
    apply(store, &[Op::InsertMany(jobs)], None);
    let claimed = apply(store, &[], Some(limits)).claimed;
    assert_eq!(claimed.len(), 1);
}

/// P79: If the clock is set back, the jobs of a lane that are not due any more go back in parts, each in a commit of
/// its own, and later they run. Before a fix, one commit moved all of them.
#[test]
fn jobs_of_a_lane_go_back_in_parts() {
    let (mut store, limits) = (opened(&[KIND]), one_each());
    let jobs = (0..3000).map(|_| job(Some("acme"))).collect();
    apply(&mut store, &[Op::InsertMany(jobs)], None);
    // One job runs, and no other may.
    for _ in 0..4 {
        apply(&mut store, &[], Some(&limits));
    }
    let on_the_road = |store: &Sqlite| -> i64 {
        let conn = store.conn.as_ref().unwrap();
        conn.query_row("SELECT count(*) FROM tickwheel_job", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(on_the_road(&store), 0);
    let before = now().minus(std::time::Duration::from_secs(60));
    let (free, mut moved) = (Limits::default(), Vec::new());
    for _ in 0..4 {
        let outcome = apply_at(&mut store, &[], Some(&free), before);
        assert_eq!(outcome.claimed.len(), 0);
        moved.push(on_the_road(&store));
        store.check().unwrap();
    }
    assert_eq!(moved, [1024, 2048, 2999, 2999]);
    let mut claimed = 0;
    for _ in 0..12 {
        claimed += apply(&mut store, &[], Some(&free)).claimed.len();
    }
    assert_eq!(claimed, 2999);
}

/// A job of another partition, or of none, costs the same with few and with many waiting jobs of a full partition. A
/// job without a partition costs little more than in a file without partitions.
#[test]
fn blocked_jobs_cost_the_others_nothing() {
    let (mut plain, limits) = (opened(&[KIND]), one_each());
    let without = lives(&mut plain, &Limits::default(), None, 200);
    let mut costs = Vec::new();
    for blocked in [10, 10_000] {
        let mut store = opened(&[KIND]);
        block(&mut store, &limits, blocked);
        let of_none = lives(&mut store, &limits, None, 200);
        let of_another = lives(&mut store, &limits, Some("acme"), 200);
        // Another connection has written: everything that it could have changed is read again.
        store.state.claims.rewind();
        let after_rewind = lives(&mut store, &limits, None, 200);
        costs.push([of_none, of_another, after_rewind]);
        store.check().unwrap();
    }
    let [few, many] = &costs[..] else { unreachable!() };
    for (few, many) in few.iter().zip(many) {
        assert!((few - many).abs() <= 5, "{without}, {costs:?}");
    }
    assert!(few[0] * 100 <= without * 115, "{without}, {costs:?}");
    println!(
        "steps a job: {without} without partitions; {costs:?} beside 10 and 10000 blocked jobs"
    );
}
