//! Values that another program wrote, in every key of a queue: each is named, and everything else goes on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{
    Client, Event, Fail, Job, JobId, JobState, Keep, Limit, NewJob, Run, Schedule, Step,
};

use crate::scenarios::limits::{Charge, charge};
use crate::server::{Server, pause, wait_until};
use crate::support::{Events, Log, MS, Order, in_hand, open, wall_now};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const NOW: Duration = Duration::ZERO;
const PREFIX: &str = "tw:{jobs}:";

/// The callback of a group.
#[derive(Serialize, Deserialize)]
struct Report;

impl Job for Report {
    const KIND: &'static str = "report";
}

/// All keys of a queue with their values.
struct Snapshot(Vec<(Vec<u8>, Vec<u8>)>);

impl Snapshot {
    fn of(server: &Server) -> Snapshot {
        let mut connection = server.connection();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut cursor = 0_u64;
        loop {
            let (next, some): (u64, Vec<Vec<u8>>) =
                redis::cmd("SCAN").arg(cursor).query(&mut connection).unwrap();
            keys.extend(some);
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        keys.sort();
        keys.dedup();
        let dump = |key: Vec<u8>| {
            let value = redis::cmd("DUMP").arg(&key).query(&mut server.connection()).unwrap();
            (key, value)
        };
        Snapshot(keys.into_iter().map(dump).collect())
    }

    fn restore(&self, server: &Server) {
        let mut all = redis::pipe();
        all.cmd("FLUSHALL").ignore();
        for (key, value) in &self.0 {
            all.cmd("RESTORE").arg(key).arg(0).arg(value).ignore();
        }
        all.exec(&mut server.connection()).unwrap();
    }
}

/// Fills a queue: every key has a value, and a node has claims that it does not end.
fn fill(server: &Server) -> Snapshot {
    let (let_go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let orders = Arc::clone(&gate);
    let wait = |gate: &Mutex<std::sync::mpsc::Receiver<()>>| {
        let _ = gate.lock().unwrap().recv();
    };
    let on_order = move |order: Order, run: &Run| -> Result<(), Fail> {
        match order.0 {
            0 | 1 => {
                run.set_progress(&"half")?;
                wait(&orders);
            }
            2 => return Err(Fail::dead("no such order")),
            3 => return Err(Fail::after(HOUR, "not yet")),
            _ => {}
        }
        Ok(())
    };
    let on_charge = move |charge: Charge, _: &Run| -> Result<(), Fail> {
        if charge.0 != "quick" {
            wait(&gate);
        }
        Ok(())
    };
    let jobs = open(server)
        .threads(4)
        .lease(60 * SECOND)
        .handle(on_order)
        .handle(on_charge)
        .handle(|_: Report, _| Ok(()))
        .start()
        .unwrap();
    let client = open(server).client().unwrap();
    let (orders, charges) = (client.kind::<Order>(), client.kind::<Charge>());
    orders.keep_completed(Keep::last(100)).unwrap();
    orders.head_start(SECOND).unwrap();
    client.kind_named("other").pause().unwrap();
    client.queue().limit(Limit::running(50)).unwrap();
    charges.limit(Limit::running(40).rate(1000, SECOND).burst(900)).unwrap();
    charges.limit_each(Limit::running(20)).unwrap();
    charges.partition("acme").limit(Limit::running(2).weight(3)).unwrap();
    charges.partition("late").pause().unwrap();
    charges.partition("held").hold(HOUR).unwrap();
    client.queue().hold(MS).unwrap();
    client.schedule("nightly", Schedule::every(HOUR), Order(200)).unwrap();
    client.schedule("paused", Schedule::every(HOUR), Order(201)).unwrap();
    client.schedules().pause("paused").unwrap();
    client.insert_batch((100..130).map(|n| (NOW, Order(n)))).unwrap();
    client.keyed("done").insert(NOW, Order(130)).unwrap();
    client.insert_job(NewJob::new(Order(131)).at(NOW).id(JobId::named("done"))).unwrap();
    client.group().add(NOW, Order(132)).then(Report).insert().unwrap();
    for n in [2, 2, 3] {
        client.insert(NOW, Order(n)).unwrap();
    }
    client.insert(NOW, charge("quick")).unwrap();
    let ended = || {
        let counts = client.count().unwrap();
        counts.pending == 1 && counts.claimed + counts.running == 0
    };
    wait_until("the first have ended", ended);
    client.insert(NOW, Order(0)).unwrap();
    let cancelled = client.insert(NOW, Order(1)).unwrap();
    wait_until("they run", || in_hand(&client) == 2);
    client.insert(NOW, charge("stuck")).unwrap();
    wait_until("it runs", || in_hand(&client) == 3);
    let of = |name: &'static str| (0..3).map(move |_| (NOW, charge(name)));
    let all = of("beta").chain(of("gamma")).chain(of("acme")).chain(of("late")).chain(of("held"));
    client.insert_batch(all).unwrap();
    client.insert(HOUR, charge("beta")).unwrap();
    client.insert(HOUR, Order(10)).unwrap();
    client.keyed("k").insert(HOUR, Order(11)).unwrap();
    client.insert_job(NewJob::new(Order(12)).at(HOUR).id(JobId::named("chosen"))).unwrap();
    let group = client.group().add(HOUR, Order(13)).then(Report).open().unwrap();
    group.add(HOUR, Order(14)).unwrap();
    group.seal().unwrap();
    assert!(!client.cancel(cancelled).unwrap().is_cancelled());
    pause(1500 * MS);
    let snapshot = Snapshot::of(server);
    drop(let_go);
    jobs.shutdown().unwrap();
    snapshot
}

/// Lives with a queue for some seconds, two hours after it was filled. Returns what failed.
fn live(server: &Server, wall: SystemTime, events: &Events) -> Vec<String> {
    let mut failed = Vec::new();
    let mut must = |what: &str, done: Result<(), String>| {
        if let Err(error) = done {
            failed.push(format!("{what}: {error}"));
        }
    };
    fn unit<T, E: std::fmt::Display>(done: Result<T, E>) -> Result<(), String> {
        done.map(drop).map_err(|error| error.to_string())
    }
    let log = Log::default();
    let (orders, charges, reports) = (log.clone(), log.clone(), log.clone());
    let builder = events
        .of(open(server))
        .lease(30 * SECOND)
        .handle(move |order: Order, run: &Run| -> Result<(), Fail> {
            orders.add(order.0);
            match order.0 {
                302 => Err(Fail::dead("dies")),
                303 if run.attempt() == 1 => Err(Fail::after(MS, "once")),
                _ => Ok(()),
            }
        })
        .handle(move |charge: Charge, _: &Run| {
            charges.add(if charge.0 == "new" { 400 } else { 401 });
            Ok(())
        })
        .handle(move |_: Report, _: &Run| {
            reports.add(402);
            Ok(())
        });
    let (jobs, driver) = match builder.manual() {
        Ok(both) => both,
        Err(error) => return vec![format!("open: {error}")],
    };
    driver.set_wall(wall);
    let client: &Client = &jobs;
    must("insert", unit(client.insert(NOW, Order(300))));
    for _ in 0..6 {
        driver.advance(SECOND);
    }
    must("insert batch", unit(client.insert_batch((310..315).map(|n| (NOW, Order(n))))));
    must("insert of a partition", unit(client.insert(NOW, charge("new"))));
    must(
        "insert with id",
        unit(client.insert_job(NewJob::new(Order(301)).at(NOW).id(JobId::new()))),
    );
    must("insert of one that dies", unit(client.insert(NOW, Order(302))));
    must("insert of one that fails", unit(client.insert(NOW, Order(303))));
    must("insert under a key", unit(client.keyed("new").insert(HOUR, Order(304))));
    must("replace", unit(client.keyed("k").insert(HOUR, Order(305))));
    match client.insert(HOUR, Order(306)) {
        Ok(id) => {
            must("reschedule", unit(client.reschedule(id, 2 * HOUR)));
            match client.cancel(id) {
                Ok(answer) if answer.is_cancelled() => {}
                other => must("cancel", Err(format!("{other:?}"))),
            }
        }
        Err(error) => must("insert", Err(error.to_string())),
    }
    let group = client.group().add(NOW, Order(307)).then(Report);
    must("insert of a group", unit(group.insert()));
    must("schedule", unit(client.schedule("new", Schedule::every(SECOND), Order(308))));
    must("pause", unit(client.kind::<Report>().pause()));
    must("resume", unit(client.kind::<Report>().resume()));
    must("limit", unit(client.kind::<Charge>().partition("new").limit(Limit::running(7))));
    must("hold", unit(client.kind::<Charge>().partition("other").hold(MS)));
    must("head start", unit(client.kind::<Charge>().head_start(SECOND)));
    for _ in 0..6 {
        driver.advance(SECOND);
    }
    for n in [300, 301, 302, 303, 307, 308, 310, 311, 312, 313, 314, 400, 402] {
        if log.of(n) == 0 {
            must("run", Err(format!("{n} did not run")));
        }
    }
    if log.of(303) != 2 {
        must("retry", Err("303 was not tried again".to_owned()));
    }
    must("kinds", unit(client.queue().kinds()));
    let listed_of = |many: usize, least: usize| match many >= least {
        true => Ok(()),
        false => Err(format!("{many} of {least}")),
    };
    let listed = |jobs: Vec<JobId>, least: usize| listed_of(jobs.len(), least);
    must("pending", listed(client.pending().map(|job| job.id).collect(), 2));
    let dead: Vec<JobId> = client.dead().map(|job| job.id).collect();
    must("dead", listed(dead.clone(), 2));
    must(
        "completed",
        listed(client.ended().state(JobState::Completed).map(|job| job.id).collect(), 10),
    );
    for (n, id) in dead.into_iter().enumerate() {
        match n % 2 {
            0 => must("retry of the dead", unit(client.retry(id))),
            _ => must("delete", unit(client.delete(id))),
        }
    }
    must("dead by error", unit(client.dead_by_error(9)));
    must("get of a key", unit(client.keyed("new").get()));
    must("groups", unit(client.groups()));
    must("metrics", unit(client.metrics()));
    must("nodes", unit(client.nodes()));
    must("schedules", unit(client.schedules().list()));
    must("limits", unit(client.queue().limits()));
    let ever = SystemTime::UNIX_EPOCH..wall + HOUR;
    let inserted =
        client.kind::<Order>().history(Step::Minute, ever).map_err(|error| error.to_string());
    let inserted = inserted.map(|rows| rows.iter().map(|row| row.inserted).sum::<u64>());
    let counted = inserted.and_then(|many| listed_of(many as usize, 10));
    must("history", counted);
    // A purge of all that is over.
    driver.set_wall(wall + 1000 * 24 * HOUR);
    driver.advance(SECOND);
    must("insert after a purge", unit(client.insert(NOW, Order(320))));
    driver.advance(SECOND);
    if log.of(320) == 0 {
        must("run", Err("320 did not run".to_owned()));
    }
    let in_hand = client.count().map(|counts| counts.claimed + counts.running);
    if !matches!(in_hand, Ok(0)) {
        must("leases", Err(format!("{in_hand:?} are claimed")));
    }
    drop((jobs, driver));
    failed
}

fn lossy(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Values of one key that are written by hand.
struct Plant {
    key: String,
    /// No value of these makes no sense.
    is_free: bool,
    commands: Vec<redis::Cmd>,
    what: String,
}

impl Plant {
    /// Writes the values into a full queue, and lives with them. Returns what is wrong then.
    fn and_live(self, server: &Server, wall: SystemTime) -> Vec<String> {
        let Plant { key, is_free, commands, what } = self;
        let mut wrong = Vec::new();
        for cmd in commands {
            cmd.exec(&mut server.connection()).unwrap();
        }
        let found = open(server).client().map(|client| client.check());
        let found = found.unwrap().map_err(|error| error.to_string());
        let is_named = |found: &String| {
            let by_its_job = match &*key {
                "jobs" => found.contains("R12: "),
                "fence" => found.contains("R22: "),
                _ => false,
            };
            by_its_job || found.contains(&format!("{PREFIX}{key} "))
        };
        if !is_free && !found.as_ref().is_err_and(is_named) {
            wrong.push(format!("{what}: check says {found:?}"));
        }
        let events = Events::default();
        let failed = live(server, wall, &events);
        let told = events.all(|event| match event {
            Event::Unreadable { what, error } => Some(format!("{what}: {error}")),
            Event::CommitFailed { error, .. } => Some(format!("failed: {error}")),
            _ => None,
        });
        for name in server.by_hand::<Vec<Vec<u8>>>("HKEYS", "unreadable", &[]) {
            let key = lossy(name.split(|byte| *byte == b':').next().unwrap_or_default());
            let is_named = |told: &String| {
                told.contains(&format!("{PREFIX}{key}"))
                    || key == "jobs" && told.starts_with("job ")
            };
            if !told.iter().any(is_named) {
                wrong.push(format!("{what}: no event names {}", lossy(&name)));
            }
        }
        if !failed.is_empty() {
            wrong.push(format!("{what}: {failed:?}, told {told:?}"));
        }
        wrong.iter().for_each(|wrong| eprintln!("{wrong}"));
        wrong
    }
}

/// Values that make no sense in place of `value`.
fn hostile(value: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        ["", "text", "99999999999999999999", "-7", "nan", "inf", "1e400", "\0"]
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
    all.push(value[..value.len() / 2].to_vec());
    all.push([&[0xff; 9], value].concat());
    all.push([value, &b"x".repeat(300)].concat());
    all.push(vec![0xff; value.len().max(1)]);
    // A number of 254 bytes in a row of the history, with which a server would count for ever.
    all.push([&[0, 255, 0][..], &[255; 253], &[1]].concat());
    all.retain(|other| other != value);
    all
}

/// Says whether a value of a field may be anything.
fn is_free_field(key: &str, field: &[u8]) -> bool {
    let starts = |word: &str| field.starts_with(word.as_bytes());
    match key {
        "progress" => true,
        "settings" => starts("pause"),
        "flow" => field.is_empty() || starts("pause-part"),
        "lanes" => field == b"\0w",
        _ => key.starts_with("sent:"),
    }
}

/// Returns what to write into each key that the server has: hostile values of its fields, one of each kind at a time;
/// and hostile fields, members and scores.
fn plants(server: &Server) -> Vec<Plant> {
    let mut connection = server.connection();
    let keys: Vec<String> = server.ask(&["KEYS", "*"]);
    let mut all = Vec::new();
    for key in keys.into_iter().filter(|key| key.starts_with(PREFIX)) {
        let name = key[PREFIX.len()..].to_owned();
        let command = |words: &[&[u8]]| {
            let mut cmd = redis::Cmd::new();
            cmd.arg(words);
            cmd
        };
        let mut plant = |what: String, is_free, commands| {
            all.push(Plant {
                key: name.clone(),
                is_free,
                commands,
                what: format!("{key}, {what}"),
            });
        };
        let of: String = server.ask(&["TYPE", &key]);
        if of == "hash" {
            let rows: Vec<(Vec<u8>, Vec<u8>)> =
                redis::cmd("HGETALL").arg(&key).query(&mut connection).unwrap();
            // The jobs that are left must live.
            let most = if ["jobs", "fence"].contains(&&*name) { 1 } else { rows.len() };
            // With many fields, each of these values is in one of them at once.
            let kinds = hostile(b"some value").len();
            for kind in 0..kinds.div_ceil(most.min(kinds)).max(2) {
                let (mut commands, mut is_free) = (Vec::new(), true);
                for (n, (field, value)) in rows.iter().take(most).enumerate() {
                    let others = hostile(value);
                    let other = &others[(kind + n) % others.len()];
                    if (&*name, &**field) != ("meta", b"layout") {
                        is_free &= is_free_field(&name, field);
                        commands.push(command(&[b"HSET", key.as_bytes(), field, other]));
                    }
                }
                // A longer record has a longer payload, and the end of a fence is zeros.
                is_free |= most == 1 && kind == 10;
                plant(format!("values {kind}"), is_free, commands);
            }
            if name == "lanes" {
                // The marks, which a queue has for a moment only.
                for (n, value) in hostile(b"7").into_iter().enumerate() {
                    let marks = [b"\0c", b"\0s", b"\0p", b"\0h"];
                    let marks = marks.map(|mark| command(&[b"HSET", key.as_bytes(), mark, &value]));
                    plant(format!("marks {n}"), true, marks.into());
                }
            }
            // The half of `pause:other` is the pause of the queue.
            let fields = hostile(&rows[0].0).into_iter().filter(|field| field != b"pause");
            let set = |field: Vec<u8>| command(&[b"HSET", key.as_bytes(), &field, b"text"]);
            plant("fields".to_owned(), name.starts_with("sent:"), fields.map(set).collect());
        } else if of == "set" {
            let members = hostile(b"0123456789abcdef").into_iter();
            let add = |member: Vec<u8>| command(&[b"SADD", key.as_bytes(), &member]);
            plant("members".to_owned(), false, members.map(add).collect());
        } else {
            let members: Vec<Vec<u8>> =
                redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).query(&mut connection).unwrap();
            let wrong = members.iter().flat_map(|member| {
                let note = [&member[..member.len().min(7)], b"a note"].concat();
                hostile(member).into_iter().chain([note])
            });
            let add = |member: Vec<u8>| command(&[b"ZADD", key.as_bytes(), b"0", &member]);
            plant("members".to_owned(), false, wrong.map(add).collect());
            if !["over", "members", "held", "wait", "turn"].contains(&&*name) {
                for score in ["inf", "-inf", "1.5", "-5", "1e17"] {
                    let words = [b"ZADD", key.as_bytes(), score.as_bytes(), &members[0]];
                    plant(format!("score {score}"), false, vec![command(&words)]);
                }
            }
        }
    }
    all
}

/// P100, D3: A value that makes no sense, in any key of a queue, is named by `check` and stops nothing else: inserts,
/// claims, runs, their ends, the ends of leases, cancels, pauses, lists, groups and metrics go on. What a script has
/// set aside is named by an event. Before a fix, one text in `turn` or in a mark of `lanes` let no job of any kind be
/// claimed, and no node of the queue found the ended leases of another.
#[test]
fn foreign_value_in_any_key_is_named_and_stops_nothing_else() {
    let server = Server::start();
    let full = fill(&server);
    full.restore(&server);
    let client = open(&server).client().unwrap();
    client.check().unwrap();
    let plants = plants(&server);
    let keys: BTreeSet<&str> = plants.iter().map(|plant| &*plant.key).collect();
    assert!(keys.len() > 25, "{keys:?}");
    let wall = wall_now() + 2 * HOUR;
    assert_eq!(live(&server, wall, &Events::default()), [] as [String; 0]);
    let (plants, wrong) = (Mutex::new(plants), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let server = Server::start();
                loop {
                    let Some(plant) = plants.lock().unwrap().pop() else { break };
                    full.restore(&server);
                    let found = plant.and_live(&server, wall);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
