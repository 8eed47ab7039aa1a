//! Limits of a file: their number, and a restart.

use tickwheel_jobs::{Limit, StoreError};

use super::support::*;
use crate::scenarios::limits::{Charge, charge, noted};

/// P23: A queue takes limits of 10,000 scopes, and no more. Those that it has can be changed and removed.
#[test]
fn number_of_scopes_with_a_limit_has_a_bound() {
    let (_folder, path) = file();
    let (jobs, _driver, _) = noted(open(&path));
    let mut file = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    let transaction = file.transaction().unwrap();
    for n in 0..10_000 {
        let name = format!("limit-part:6:charge:{n}");
        let set = "INSERT INTO tickwheel_setting VALUES (?1, '{\"running\":1}')";
        transaction.execute(set, [name]).unwrap();
    }
    transaction.commit().unwrap();
    let charges = jobs.kind::<Charge>();
    let too_many = Err(StoreError::TooManyScopes(10_000));
    assert_eq!(jobs.queue().limit(Limit::running(7)), too_many);
    assert_eq!(charges.partition("acme").limit(Limit::running(7)), too_many);
    charges.partition("7").limit(Limit::running(7)).unwrap();
    charges.partition("8").limit(Limit::none()).unwrap();
    charges.partition("acme").limit(Limit::running(7)).unwrap();
    assert_eq!(jobs.queue().limits().unwrap().len(), 10_000);
}

/// P25: The jobs of a partition keep its limit and its turns across a restart, and after a crash of the process they
/// run.
#[test]
fn lanes_are_found_again_after_a_restart() {
    let (_folder, path) = file();
    let open = || open(&path);
    {
        let (jobs, driver, ran) = noted(open());
        jobs.kind::<Charge>().limit(Limit::running(1)).unwrap();
        jobs.insert_batch((0..20).map(|_| (SECOND, charge("acme")))).unwrap();
        jobs.insert(SECOND, charge("beta")).unwrap();
        drop((jobs, driver));
        assert_eq!(*ran.lock().unwrap(), [""; 0]);
    }
    let (jobs, driver, ran) = noted(open());
    driver.advance(5 * SECOND);
    let ran = ran.lock().unwrap();
    assert_eq!(ran.len(), 21);
    let beta = ran.iter().position(|name| name == "beta").unwrap();
    assert!(beta < 4, "{beta}");
    jobs.check().unwrap();
}

/// P25: A row that cannot be read holds back none of the due jobs of partitions behind it, however many there are.
#[test]
fn unreadable_row_holds_back_no_job_of_a_partition() {
    let (_folder, path) = file();
    let client = client(&path);
    client.insert(std::time::Duration::ZERO, charge("first")).unwrap();
    client.insert_batch((0..1_500).map(|_| (MS, charge("acme")))).unwrap();
    let conn = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    let spoiled = conn.execute("UPDATE tickwheel_job SET part = X'ff' WHERE part = 'first'", []);
    assert_eq!(spoiled.unwrap(), 1);
    drop((conn, client));
    let (_jobs, driver, ran) = noted(open(&path));
    for _ in 0..5 {
        driver.advance(SECOND);
    }
    assert_eq!(ran.lock().unwrap().len(), 1_500);
}
