//! The view of `top`, tested without a terminal and without a store. This file has the queue that the tests show,
//! `pages.rs` compares pages, and `keys.rs` presses keys.

mod keys;
mod pages;

use std::time::{Duration, SystemTime};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use tickwheel_jobs::Counts;

use super::change::{Change, Scope, Verb};
use super::draw::{cells, draw};
use super::figures::{
    Figures, Group, GroupRow, KindRow, Listed, Minute, Next, Node, Rates, Run, Time,
};
use super::lists::{JobPage, List, ListOf, Set};
use super::state::{Effect, Event, Mode, Opened, State, Tab, View};
use crate::queue::LimitRow;

/// 2026-11-22T10:00:30Z.
fn at(seconds: f64) -> Time {
    Time(
        SystemTime::UNIX_EPOCH
            + Duration::from_secs(1_795_341_630)
            + Duration::from_secs_f64(seconds),
    )
}

fn before(seconds: u64) -> Time {
    Time(at(0.0).0 - Duration::from_secs(seconds))
}

fn rates(completed: f64, failed: f64) -> Rates {
    Rates {
        seconds: 90.0,
        completed_per_second: completed,
        failed_per_second: failed,
        late: Some(Duration::from_millis(25)),
        took: Some(Duration::from_micros(2500)),
        ..Rates::default()
    }
}

fn kind(kind: &str, pending: u64, dead: u64) -> KindRow {
    KindRow {
        kind: kind.to_owned(),
        has_node: true,
        pending,
        running: Some(pending % 7),
        dead,
        dead_is_exact: true,
        rates: rates(pending as f64 / 100.0, dead as f64 / 1000.0),
        ..KindRow::default()
    }
}

fn group(kind: &str, error: &str, jobs: u64) -> Group {
    Group { kind: kind.to_owned(), error: error.to_owned(), jobs }
}

/// A shop with five kinds.
fn shop() -> Figures {
    let mut counts = Counts::default();
    (counts.pending, counts.claimed, counts.dead, counts.schedules) = (1_204_311, 16, 344, 1);
    (counts.overdue.count, counts.oldest_overdue) = (12, Some(Duration::from_secs(184)));
    let mut kinds = vec![
        kind("close-order", 4711, 0),
        kind("push", 1_199_000, 340),
        kind("charge", 420, 4),
        kind("report", 0, 0),
        kind("forgotten", 180, 0),
    ];
    kinds[3].is_paused = true;
    (kinds[4].has_node, kinds[4].oldest_overdue) = (false, Some(Duration::from_secs(184)));
    kinds[4].rates = Rates::default();
    let minute = |begin, completed, failed| Minute { begin: before(begin), completed, failed };
    Figures {
        time: at(0.0),
        store: "/var/lib/shop/shop.db".to_owned(),
        counts,
        limit: 64,
        rates: rates(12.5, 0.25),
        all_kinds: 5,
        kinds,
        nodes: vec![Node {
            host: "shop-3".to_owned(),
            pid: 4711,
            version: "0.1.0".to_owned(),
            threads: Some(4),
            in_flight: 16,
            most_runs: 64,
            started: before(90_000),
            seen: before(4),
            was_seen_lately: true,
            kinds: vec!["charge".to_owned(), "close-order".to_owned()],
        }],
        runs: Some(vec![Run {
            id: ID.to_owned(),
            kind: "report".to_owned(),
            key: Some("customer-7".to_owned()),
            attempt: 2,
            due: before(65),
            claimed: Some(before(12)),
            lease_ends: Some(at(18.0)),
            progress: Some("{\"done\":3}".to_owned()),
        }]),
        dead_by_error: vec![
            group("push", "no route to host", 340),
            group("charge", "card declined", 4),
        ],
        next_schedules: vec![Next {
            name: "nightly".to_owned(),
            kind: "report".to_owned(),
            rule: "cron Europe/Berlin 0 7 * * mon-fri".to_owned(),
            next: at(3600.0),
            is_paused: false,
        }],
        limits: Some(vec![
            LimitRow {
                scope: "flow",
                flow: Some("push".to_owned()),
                running: 3,
                most_running: Some(3),
                rate: Some(10),
                per_ms: Some(1000),
                burst: Some(20),
                next_start: Some(at(0.4).0),
                is_reached: true,
                ..LimitRow::default()
            },
            LimitRow {
                scope: "partition",
                kind: Some("charge".to_owned()),
                partition: Some("customer-7".to_owned()),
                weight: Some(5),
                held_until: Some(at(30.0).0),
                is_reached: true,
                ..LimitRow::default()
            },
            LimitRow {
                scope: "queue",
                running: 16,
                most_running: Some(100),
                ..LimitRow::default()
            },
        ]),
        groups: vec![GroupRow {
            id: "1a201ea65320004000000000000000aa".to_owned(),
            made: before(300),
            state: "sealed",
            total: 100_000,
            open: 98_000,
            completed: 1990,
            dead: 7,
            cancelled: 3,
        }],
        minutes: vec![minute(90, 300, 0), minute(30, 600, 30)],
        ..Figures::default()
    }
}

const ID: &str = "1a201ea65320004000000000000000ff";

fn listed(dead: bool) -> Listed {
    Listed {
        id: ID.to_owned(),
        kind: "push".to_owned(),
        state: if dead { "dead" } else { "pending" }.to_owned(),
        is_dead: dead,
        has_ended: dead,
        key: Some("order-1001".to_owned()),
        error: Some("no route to host\nafter 3 hops".to_owned()),
        failures: 3,
        due: before(10),
        ended: dead.then(|| before(5)),
    }
}

fn state_of(figures: Figures, size: (u16, u16)) -> State {
    let mut state = State::new(at(0.0), size, true);
    assert_eq!(state.take(Event::Figures(Box::new(figures))), None);
    state
}

fn view() -> State {
    state_of(shop(), (80, 24))
}

/// Returns the drawn screen, without blanks at the ends of lines.
fn drawn(state: &State) -> String {
    let mut terminal = Terminal::new(TestBackend::new(state.size.0, state.size.1)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut lines = Vec::new();
    for y in 0..state.size.1 {
        let mut line = String::new();
        let mut skip = 0;
        for x in 0..state.size.0 {
            let symbol = buffer[(x, y)].symbol();
            // A wide character has a second cell.
            if skip == 0 {
                line += symbol;
                skip = cells(symbol).max(1);
            }
            skip -= 1;
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n") + "\n"
}

fn press(state: &mut State, code: KeyCode) -> Option<Effect> {
    state.take(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
}

fn press_char(state: &mut State, c: char) -> Option<Effect> {
    press(state, KeyCode::Char(c))
}

fn list_of(kind: &str, set: Set, error: Option<&str>) -> ListOf {
    ListOf { kind: kind.to_owned(), set, error: error.map(str::to_owned) }
}

fn answer(state: &mut State, of: ListOf, page: usize, jobs: Vec<Listed>, has_more: bool) {
    let list = List { of, page, jobs, has_more, note: None };
    assert_eq!(state.take(Event::List(list)), None);
}
