//! An order and the job that closes it, in one transaction of the application's own SQLite file: both
//! are there, or neither is.
//!
//! ```sh
//! cargo run --release -p tickwheel-jobs --example outbox
//! ```
//!
//! It takes less than a second, says what it found, and exits with 1 if a promise is broken.
//!
//! What to know before this is copied:
//!
//! - **The connection is the application's**, opened on the same file. The transaction is
//!   `Immediate`: one that reads first and writes later may be refused by SQLite at once, without
//!   waiting for its turn (`StoreError::BusySnapshot`).
//! - **A connection of sqlx, diesel or another library** runs the statement of `Client::statement`:
//!   `docs/sqlite.md`.
//! - **A transaction that is open keeps everybody else from writing**, the dispatcher too. Nothing that
//!   takes long belongs into it: no call over a network, no question to a user.
//! - **`nudge` after the commit** makes the dispatcher look at once. Without it, and from another
//!   process, it looks within a second.
//! - **The handler does its own work in such a transaction**, and ends its run in it: the order is
//!   closed, the job is done and the mail is due, or none of these. So the order is closed exactly once.
//!   The mail is sent at least once: a mail server is in no transaction.

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use std::{env, fs, process};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::rusqlite::{Connection, TransactionBehavior, params};
use tickwheel_jobs::{Fail, Job, Jobs, Run};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: i64,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order";
}

/// The next step after an order was closed.
#[derive(Serialize, Deserialize)]
struct Mail {
    order: i64,
}

impl Job for Mail {
    const KIND: &'static str = "mail";
}

/// Longer than anything here takes on a loaded machine.
const LONG: Duration = Duration::from_secs(20);

fn main() -> Result<()> {
    let folder = env::temp_dir().join(format!("tickwheel-outbox-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let result = sell(&folder.join("shop.db"));
    fs::remove_dir_all(&folder)?;
    result
}

fn sell(file: &Path) -> Result<()> {
    let (mailed, mails) = mpsc::channel();
    let builder = Jobs::open(file)?; // The file is there now, and the application's tables join it.
    let mut shop = Connection::open(file)?;
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)")?;
    let closing = Mutex::new(Connection::open(file)?);
    let jobs = builder
        .handle(move |close: CloseOrder, run| {
            let mut shop = closing.lock().unwrap_or_else(|broken| broken.into_inner());
            close_order(&mut shop, close.order, run)
        })
        .handle(move |mail: Mail, _| {
            println!("    mail: order {} was closed, because nobody paid", mail.order);
            Ok(mailed.send(mail.order)?)
        })
        .start()?;

    println!("order 1001: the transaction is rolled back");
    let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT INTO orders VALUES (1001, 'open')", [])?;
    jobs.insert_in(&transaction, Duration::ZERO, CloseOrder { order: 1001 })?;
    transaction.rollback()?;
    jobs.nudge();
    promise("no order and no job", state(&shop, 1001)?.is_none() && jobs.count()?.pending == 0)?;

    println!("order 1002: the transaction is committed, and the order closes after 300 ms");
    let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT INTO orders VALUES (1002, 'open')", [])?;
    let delay = Duration::from_millis(300);
    let id = jobs.insert_in(&transaction, delay, CloseOrder { order: 1002 })?;
    promise("before the commit nobody sees the job", jobs.get(id)?.is_none())?;
    transaction.commit()?;
    jobs.nudge();
    let both = state(&shop, 1002)?.as_deref() == Some("open") && jobs.get(id)?.is_some();
    promise("an order and its job", both)?;

    let order = mails.recv_timeout(LONG)?;
    promise("the order was closed, and its mail sent", order == 1002)?;
    promise("the order's row says so", state(&shop, 1002)?.as_deref() == Some("closed"))?;
    promise("order 1001 was never closed", mails.try_recv().is_err())?;
    jobs.check()?;
    Ok(jobs.shutdown()?)
}

/// Closes the order, makes the mail due and ends the run, in one transaction.
fn close_order(shop: &mut Connection, order: i64, run: &Run) -> Result<(), Fail> {
    let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let close = "UPDATE orders SET state = 'closed' WHERE id = ?1 AND state = 'open'";
    // It may have been paid meanwhile: then there is no mail.
    if transaction.execute(close, params![order])? == 1 {
        run.then(Duration::ZERO, Mail { order })?;
    }
    run.end_in(&transaction)?;
    Ok(transaction.commit()?)
}

fn state(shop: &Connection, order: i64) -> Result<Option<String>> {
    let mut found = shop.prepare("SELECT state FROM orders WHERE id = ?1")?;
    Ok(found.query_map(params![order], |row| row.get(0))?.next().transpose()?)
}

fn promise(what: &str, holds: bool) -> Result<()> {
    println!("    {}: {what}", if holds { "ok" } else { "BROKEN" });
    if holds { Ok(()) } else { Err(format!("a promise is broken: {what}").into()) }
}
