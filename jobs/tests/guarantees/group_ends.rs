//! Members of groups that end in a transaction of their handler, on the file of the jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tickwheel_jobs::rusqlite::{Connection, TransactionBehavior};
use tickwheel_jobs::{Fail, Jobs, Run};

use super::support::*;

/// P31: The commit that ends the last member in a transaction of its handler inserts the callback. A rollback does not:
/// then the member ends as its handler says.
#[test]
fn callback_comes_with_the_commit_that_ends_the_last_member() {
    let (_folder, path) = file();
    let came = Arc::new(AtomicU64::new(0));
    let (noted, file) = (Arc::clone(&came), path.clone());
    let handler = move |close: Close, run: &Run| -> Result<(), Fail> {
        let mut conn = Connection::open(&file)?;
        let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        run.end_in(&transaction)?;
        let group = run.group()?.ok_or("no group")?;
        assert_eq!(group.open, 1, "another connection does not see the end");
        match close.order {
            1 => transaction.commit()?,
            _ => transaction.rollback()?,
        }
        let group = run.group()?.ok_or("no group")?;
        assert_eq!(group.ended.is_some(), close.order == 1);
        Ok(())
    };
    let report = move |push: Push, run: &Run| -> Result<(), Fail> {
        let group = run.group()?.ok_or("no group")?;
        assert_eq!((group.completed, push.to.as_str()), (1, "done"));
        noted.fetch_add(1, Ordering::AcqRel);
        Ok(())
    };
    let builder = Jobs::open(&path).unwrap().handle(handler).handle(report);
    let (jobs, driver) = builder.manual().unwrap();
    for (order, reports) in [(1, 1), (2, 2)] {
        let then = Push { to: "done".to_owned() };
        jobs.group().add(Duration::ZERO, close(order)).then(then).insert().unwrap();
        driver.advance(SECOND);
        driver.advance(SECOND);
        assert_eq!(came.load(Ordering::Acquire), reports);
        jobs.check().unwrap();
    }
}
