use std::sync::Mutex;
use std::time::Duration;
use tickwheel_jobs::rusqlite::{Connection, TransactionBehavior, params};
use tickwheel_jobs::{Job, Jobs};

#[derive(serde::Serialize, serde::Deserialize)]
struct Charge { order: i64, cents: u64 }
impl Job for Charge { const KIND: &'static str = "charge"; }

#[derive(serde::Serialize, serde::Deserialize)]
struct Ship { order: i64 }
impl Job for Ship { const KIND: &'static str = "ship"; }

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Jobs::open("shop.db")?;
    let shop = Connection::open("shop.db")?;
    shop.execute_batch(
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT, fence INTEGER DEFAULT 0);
         INSERT OR REPLACE INTO orders (id, state) VALUES (1001, 'new');",
    )?;
    let shop = Mutex::new(shop);
    let (jobs, driver) = builder
        .handle(move |job: Charge, run| {
            // 1. The id is the same in every run: the payment service drops the second request.
            println!("POST /charges, Idempotency-Key: {}, {} cents", run.id(), job.cents);
            let mut shop = shop.lock().expect("no handler panics while it holds the lock");
            let transaction = shop.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // 2. The fence is greater in every later run: what an old run still writes is refused.
            let charged = transaction.execute(
                "UPDATE orders SET state = 'charged', fence = ?2
                 WHERE id = ?1 AND state = 'new' AND fence < ?2",
                params![job.order, i64::try_from(run.fence().get())?],
            )?;
            // 3. The effect and the job of the next step are one transaction: both are there, or neither.
            if charged == 1 {
                run.client().insert_in(&transaction, Duration::ZERO, Ship { order: job.order })?;
            }
            transaction.commit()?;
            run.client().nudge();
            Ok(())
        })
        .handle(|_: Ship, _| Ok(()))
        .manual()?;
    jobs.insert(Duration::from_secs(1), Charge { order: 1001, cents: 4900 })?;
    assert_eq!(driver.advance(Duration::from_secs(5)), 2); // the charge, then the shipment
    Ok(())
}
