//! Tests the cost of lanes on a file, in steps of SQLite's machine: for jobs without a partition, and for jobs beside
//! blocked ones.

use std::sync::Arc;

use super::support::{apply, completed, new_job, now, opened, selected, steps};
use crate::store::sqlite::Sqlite;
use crate::store::{ClaimRequest, Claimed, NewJob, Op, Store};
use crate::values::job::Extra;
use crate::values::limit::Limit;
use crate::values::stored_limits::{LimitScope, Limits};
use crate::values::time::Millis;

const KIND: &str = "mail";

fn limited(limits: &Limits, now: Millis) -> Option<ClaimRequest> {
    let request = ClaimRequest::new(now, 500, 500, Vec::new());
    Some(ClaimRequest { limits: limits.clone(), ..request })
}

fn claim(store: &mut Sqlite, limits: &Limits) -> Vec<Claimed> {
    apply(store, &[], limited(limits, now()), now()).claimed
}

fn job(partition: Option<&str>) -> NewJob {
    let extra = Extra { partition: partition.map(Arc::from), ..Extra::default() }.boxed();
    NewJob { extra, ..new_job(KIND, now()) }
}

/// Inserts, claims and ends `many` jobs, each in commits of its own, and returns the steps of each.
fn lives(store: &mut Sqlite, limits: &Limits, partition: Option<&str>, many: i64) -> i64 {
    steps(store, |_| true);
    for _ in 0..many {
        apply(store, &[Op::Insert(job(partition))], None, now());
        let claimed = claim(store, limits);
        let [claimed] = &claimed[..] else { panic!("{} claimed", claimed.len()) };
        apply(store, &[Op::Finish(completed(claimed))], None, now());
    }
    steps(store, |_| true) / many
}

fn one_each() -> Limits {
    let each = LimitScope::Each(KIND.to_owned());
    Limits::of(&[(each.setting(), Limit::running(1).to_text())], &[])
}

/// Puts `many` jobs of one partition before all others. One of them is claimed and does not end.
fn block(store: &mut Sqlite, limits: &Limits, many: usize) {
    let jobs = (0..many).map(|_| job(Some("blocked"))).collect();
    apply(store, &[Op::InsertMany(jobs)], None, now());
    assert_eq!(claim(store, limits).len(), 1);
}

/// P79: If the clock is set back, the jobs of a lane that are not due any more go back in parts, each in a commit of
/// its own, and later they run. Before a fix, one commit moved all of them.
#[test]
fn jobs_of_a_lane_go_back_in_parts() {
    let (mut store, limits) = (opened(&[KIND], now()), one_each());
    let jobs = (0..3000).map(|_| job(Some("acme"))).collect();
    apply(&mut store, &[Op::InsertMany(jobs)], None, now());
    // One job runs, and no other may.
    for _ in 0..4 {
        claim(&mut store, &limits);
    }
    let on_the_road = |store: &Sqlite| selected::<i64>(store, "SELECT count(*) FROM tickwheel_job");
    assert_eq!(on_the_road(&store), 0);
    let before = now().minus(std::time::Duration::from_secs(60));
    let (free, mut moved) = (Limits::default(), Vec::new());
    for _ in 0..4 {
        let outcome = apply(&mut store, &[], limited(&free, before), before);
        assert_eq!(outcome.claimed.len(), 0);
        moved.push(on_the_road(&store));
        store.check().unwrap();
    }
    assert_eq!(moved, [1024, 2048, 2999, 2999]);
    let mut claimed = 0;
    for _ in 0..12 {
        claimed += claim(&mut store, &free).len();
    }
    assert_eq!(claimed, 2999);
}

/// A job of another partition, or of none, costs the same with few and with many waiting jobs of a full partition. A
/// job without a partition costs little more than in a file without partitions.
#[test]
fn blocked_jobs_cost_the_others_nothing() {
    let (mut plain, limits) = (opened(&[KIND], now()), one_each());
    let without = lives(&mut plain, &Limits::default(), None, 200);
    let mut costs = Vec::new();
    for blocked in [10, 10_000] {
        let mut store = opened(&[KIND], now());
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
