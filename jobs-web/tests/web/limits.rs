//! The limits on the page of the kinds, and the page of the groups.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_jobs::{Job, Jobs, Limit};

use crate::ask::{Charge, Mail, full, get, mail, manual, run_due, texts};

const HOUR: Duration = Duration::from_secs(3600);

/// A payment of the flow `bank`, in the partition of its customer.
#[derive(serde::Serialize, serde::Deserialize)]
struct Payment(String);

impl Job for Payment {
    const KIND: &'static str = "payment";
    const FLOW: &'static str = "bank";

    fn partition(&self) -> Option<String> {
        Some(self.0.clone())
    }
}

fn row<'a>(rows: &'a Value, name: &str, value: &str) -> &'a Value {
    let mut rows = rows.as_array().unwrap().iter();
    rows.find(|row| row[name] == value).unwrap_or_else(|| panic!("no {name} {value}"))
}

/// Without a limit no page speaks of limits. With limits, the page of the kinds says at each kind how far its flow is,
/// and lists every scope with what waits.
#[test]
fn limits_are_on_the_page_of_the_kinds() {
    let (jobs, driver) =
        Jobs::memory().handle(|_: Mail, _| Ok(())).handle(|_: Payment, _| Ok(())).manual().unwrap();
    let dashboard = full(jobs.client());
    jobs.insert(HOUR, mail("later")).unwrap();
    let kinds = get(&dashboard, "/api/v1/kinds").ok();
    assert_eq!(kinds["limits"], json!({ "rows": [], "total": 0 }));
    assert_eq!(row(&kinds["rows"], "kind", "mail")["limits"], json!([]));
    assert!(!get(&dashboard, "/kinds").text().contains("Limits"));

    let payments = jobs.kind::<Payment>();
    payments.limit(Limit::running(3).rate(2, HOUR)).unwrap();
    payments.limit_each(Limit::running(1)).unwrap();
    payments.partition("acme").pause().unwrap();
    jobs.queue().hold(HOUR).unwrap();
    for customer in ["acme", "bolt", "bolt"] {
        jobs.insert(Duration::ZERO, Payment(customer.to_owned())).unwrap();
    }
    run_due(&driver);
    // An answer is kept for a second. A dashboard of its own has none.
    let kinds = get(&full(jobs.client()), "/api/v1/kinds").ok();
    assert_eq!(kinds["limits"]["total"], 4);
    let rows = &kinds["limits"]["rows"];
    // The scopes that are held or paused come first.
    assert_eq!(texts(rows, "scope"), ["queue", "partition", "flow", "each_partition"]);
    assert!(rows[0]["held_until"].is_string(), "{rows}");
    assert_eq!(rows[0]["waiting"], json!({ "count": 3, "is_exact": true }));
    let flow = &rows[2];
    assert_eq!((&flow["flow"], &flow["most_running"]), (&json!("bank"), &json!(3)));
    assert_eq!((&flow["rate"], &flow["per_ms"]), (&json!(2), &json!(3_600_000)));
    assert_eq!((&flow["waiting"]["count"], &flow["running"]), (&json!(3), &json!(0)));
    let paused = &rows[1];
    assert_eq!((&paused["partition"], &paused["is_paused"]), (&json!("acme"), &json!(true)));
    assert_eq!(row(&kinds["rows"], "kind", "payment")["limits"], json!([rows[2], rows[3]]));
    let page = get(&full(jobs.client()), "/kinds");
    assert!(page.text().contains("0 of 3 run"), "{}", page.text());

    jobs.queue().hold(Duration::ZERO).unwrap();
    run_due(&driver);
    let kinds = get(&full(jobs.client()), "/api/v1/kinds").ok();
    let flow = row(&kinds["limits"]["rows"], "scope", "flow");
    assert!(flow["next_start"].is_string(), "{flow}");
    assert!(get(&full(jobs.client()), "/kinds").text().contains("next in "));
    let mut pending = jobs.pending();
    let acme = pending.find(|job| job.partition.as_deref() == Some("acme")).unwrap();
    let page = get(&dashboard, &format!("/jobs/{}", acme.id));
    for said in ["partition is paused", "By its rate, the flow bank", "Partition", ">acme<"] {
        assert!(page.text().contains(said), "{said} is not in {}", page.text());
    }
}

/// The page of the groups has each group with its counts, the latest first, and at most a hundred.
#[test]
fn groups_have_a_page() {
    let (jobs, driver) = manual();
    let dashboard = full(jobs.client());
    assert_eq!(get(&dashboard, "/api/v1/groups").ok()["rows"], json!([]));
    assert!(get(&dashboard, "/groups").text().contains("No group"));

    let ended = jobs.group().add(Duration::ZERO, mail("one")).add(Duration::ZERO, mail("fail"));
    let ended = ended.then(Charge { card: String::new() }).insert().unwrap();
    run_due(&driver);
    let open = jobs.group().add(HOUR, mail("later")).open().unwrap();
    let member = jobs.pending().next().unwrap();
    let member = get(&dashboard, &format!("/jobs/{}", member.id));
    assert!(member.text().contains(&open.id().to_string()), "{}", member.text());
    let groups = get(&full(jobs.client()), "/api/v1/groups").ok();
    assert_eq!(groups["has_more"], false);
    let row_of = |id: &str| row(&groups["rows"], "id", id);
    let (ended, open) = (row_of(&ended.to_string()), row_of(&open.id().to_string()));
    assert_eq!((&ended["state"], &ended["total"]), (&json!("ended"), &json!(2)), "{ended}");
    assert_eq!((&ended["completed"], &ended["dead"]), (&json!(1), &json!(1)), "{ended}");
    assert!(ended["callback"].is_string() && ended["ended"].is_string(), "{ended}");
    assert_eq!((&open["state"], &open["open"]), (&json!("open"), &json!(1)), "{open}");
    let page = get(&full(jobs.client()), "/groups");
    assert!(page.text().contains("2 of 2") && page.text().contains("0 of 1"), "{}", page.text());

    for _ in 0..100 {
        jobs.group().add(HOUR, mail("later")).insert().unwrap();
    }
    let groups = get(&full(jobs.client()), "/api/v1/groups").ok();
    assert_eq!((texts(&groups["rows"], "id").len(), &groups["has_more"]), (100, &json!(true)));
    assert_eq!(crate::ask::rows(&dashboard, "groups?limit=3"), 3);
}
