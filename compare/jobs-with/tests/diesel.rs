//! An order and its job in one transaction of diesel.

mod shared;

use std::time::Duration;

use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary};
use shared::{CloseOrder, Folder, LONG};
use tickwheel_jobs::Client;

fn order(shop: &mut SqliteConnection, jobs: &Client, order: i64, pays: bool) -> QueryResult<()> {
    shop.immediate_transaction(|shop| {
        let insert = sql_query("INSERT INTO orders VALUES (?1, 'open')");
        insert.bind::<BigInt, _>(order).execute(shop)?;
        let close = jobs.statement((Duration::ZERO, CloseOrder { order })).unwrap();
        sql_query(close.sql()).bind::<Binary, _>(close.parameter()).execute(shop)?;
        if pays { Ok(()) } else { Err(Error::RollbackTransaction) }
    })
}

/// Promise: the job of a statement is there with the commit of a transaction of diesel, or not at all.
#[test]
fn an_order_and_its_job_are_one_transaction_of_diesel() {
    let folder = Folder::new("diesel");
    let (jobs, closed) = folder.jobs();
    let mut shop = SqliteConnection::establish(folder.shop().to_str().unwrap()).unwrap();
    // The start of the jobs writes too.
    sql_query("PRAGMA busy_timeout = 60000").execute(&mut shop).unwrap();
    let create = "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)";
    sql_query(create).execute(&mut shop).unwrap();
    assert_eq!(order(&mut shop, &jobs, 1001, false), Err(Error::RollbackTransaction));
    order(&mut shop, &jobs, 1002, true).unwrap();
    jobs.nudge();
    assert_eq!(closed.recv_timeout(LONG), Ok(1002));
    assert!(closed.try_recv().is_err());
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}
