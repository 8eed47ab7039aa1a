//! The history of a queue on a server: rows that a user has damaged, and more kinds than have rows of their own.

use std::time::{Duration, SystemTime};

use tickwheel_jobs::{Client, Step};

use crate::server::Server;
use crate::support::{Order, open, wall_now};

const HOUR: Duration = Duration::from_secs(3600);
const KEY: &str = "tw:{jobs}:history";

fn fields(server: &Server) -> Vec<Vec<u8>> {
    redis::cmd("HKEYS").arg(KEY).query(&mut server.connection()).unwrap()
}

fn set(server: &Server, field: &[u8], value: &[u8]) {
    redis::cmd("HSET").arg(KEY).arg(field).arg(value).exec(&mut server.connection()).unwrap();
}

fn inserted(client: &Client, kind: &str) -> u64 {
    let ever = SystemTime::UNIX_EPOCH..wall_now() + 1000 * 24 * HOUR;
    let history = client.kind_named(kind).history(Step::Hour, ever).unwrap();
    history.iter().map(|entry| entry.inserted).sum()
}

/// P34: Rows of the history that cannot be read fail no call, also when they are folded two days later. What happens in
/// later hours is counted.
#[test]
fn history_of_a_server_with_damage_fails_no_call() {
    // The last one is a number of 254 bytes, with which a server would count for ever.
    let endless = [&[0, 255, 0][..], &[255; 253], &[1]].concat();
    let garbage: [&[u8]; 6] =
        [&[], &[7], &[255; 3], &[9, 200, 1], &[0, 4, 99, 255, 255, 255], &endless];
    let server = Server::start();
    for (value, first) in garbage.iter().flat_map(|value| b"mik".map(|first| (value, first))) {
        let _: String = server.ask(&["FLUSHALL"]);
        let handler = |_: Order, _: &tickwheel_jobs::Run| Ok(());
        let (jobs, driver) = open(&server).handle(handler).manual().unwrap();
        jobs.insert(Duration::ZERO, Order(0)).unwrap();
        let damaged = fields(&server).into_iter().find(|field| field[0] == first).unwrap();
        set(&server, &damaged, value);
        for by in [Duration::ZERO, HOUR, 50 * HOUR] {
            driver.advance(by);
            jobs.insert(Duration::ZERO, Order(1)).unwrap();
        }
        assert!(inserted(&jobs, "order") >= 2, "{damaged:?} is {value:?}");
        let named = |found: &tickwheel_jobs::Violation| {
            found.to_string().contains("in tw:{jobs}:history makes no sense")
        };
        assert!(jobs.check().as_ref().map_or_else(named, |()| true), "{damaged:?} is {value:?}");
        jobs.shutdown().unwrap();
    }
}

/// P34: While 200 other kinds have rows, the events of a further kind count as `other`. A kind to which nothing has
/// happened for 90 days makes room.
#[test]
fn kinds_behind_the_first_200_share_one_history_on_a_server() {
    let server = Server::start();
    let hours = wall_now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 3600;
    let mut kinds = Vec::new();
    for n in 0..200 {
        let kind = format!("kind {n}");
        kinds.push(u8::try_from(kind.len()).unwrap());
        kinds.extend(kind.as_bytes());
        let hour = u32::try_from(hours).unwrap().to_be_bytes();
        set(&server, format!("i{kind}").as_bytes(), &[b"m", &hour[..]].concat());
    }
    set(&server, b"k", &kinds);
    let client = open(&server).client().unwrap();
    client.insert(HOUR, Order(1)).unwrap();
    client.insert(HOUR, Order(2)).unwrap();
    assert_eq!((inserted(&client, "order"), inserted(&client, "other")), (0, 2));
    // One of them had its last hour long ago, and the store looks for such a kind again.
    let long_ago = u32::try_from(hours - 24 * 100).unwrap().to_be_bytes();
    set(&server, b"ikind 7", &[b"m", &long_ago[..]].concat());
    set(&server, b"w", b"");
    client.insert(HOUR, Order(3)).unwrap();
    assert_eq!((inserted(&client, "order"), inserted(&client, "other")), (1, 2));
    assert!(!fields(&server).contains(&b"ikind 7".to_vec()));
}
