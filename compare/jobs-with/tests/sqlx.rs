//! An order and its job in one transaction of sqlx.

mod shared;

use std::time::Duration;

use shared::{CloseOrder, Folder, LONG};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, SqlitePool};
use tickwheel_jobs::Client;

const CREATE: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)";

async fn order(
    shop: &SqlitePool,
    jobs: &Client,
    order: i64,
    pays: bool,
) -> Result<(), sqlx::Error> {
    let mut transaction = shop.begin_with("BEGIN IMMEDIATE").await?;
    let insert = sqlx::query("INSERT INTO orders VALUES (?1, 'open')").bind(order);
    insert.execute(&mut *transaction).await?;
    let close = jobs.statement((Duration::ZERO, CloseOrder { order })).unwrap();
    let insert = sqlx::query(AssertSqlSafe(close.sql().to_owned())).bind(close.parameter());
    insert.execute(&mut *transaction).await?;
    if pays { transaction.commit().await } else { transaction.rollback().await }
}

/// Promise: the job of a statement is there with the commit of a transaction of sqlx, or not at all.
#[tokio::test]
async fn an_order_and_its_job_are_one_transaction_of_sqlx() {
    let folder = Folder::new("sqlx");
    let (jobs, closed) = folder.jobs();
    let shop = SqlitePool::connect_with(SqliteConnectOptions::new().filename(folder.shop()));
    let shop = shop.await.unwrap();
    sqlx::query(CREATE).execute(&shop).await.unwrap();
    order(&shop, &jobs, 1001, false).await.unwrap();
    order(&shop, &jobs, 1002, true).await.unwrap();
    jobs.nudge();
    assert_eq!(closed.recv_timeout(LONG), Ok(1002));
    assert!(closed.try_recv().is_err());
    let orders: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM orders").fetch_all(&shop).await.unwrap();
    assert_eq!(orders, [1002]);
    shop.close().await;
    jobs.check().unwrap();
    jobs.shutdown().unwrap();
}
