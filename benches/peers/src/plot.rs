//! Drawings of the figures over the sizes, in `docs/plots/`: both axes logarithmic, a line for each
//! peer, and under it where it was measured.

use std::ops::Range;
use std::path::Path;

use harness::Fallible;
use harness::drawing::{self, Axis, COLOURS, Frame, Line};

use crate::layout::{OURS, TABLES, Table};
use crate::results::{Results, peers, sizes};

/// Draws every table that is marked for it and has figures for two sizes, and how the costs of `tickwheel`
/// grow.
pub(crate) fn write(results: &Results, folder: &Path) -> Fallible {
    for table in TABLES.iter().filter(|table| table.drawn) {
        let peers = peers(results, table.suite, table.work, table.delays);
        let lines = peers.into_iter().enumerate().map(|(index, peer)| {
            // Ours is thicker.
            let width = if peer == OURS { 4 } else { 2 };
            line(index, peer.to_owned(), width, points(table, peer, results))
        });
        let path = folder.join(format!("{}.svg", table.name()));
        let titles = [&capital(table.title), table.of, table.unit];
        draw(&path, titles, results.place(table.suite), &lines.collect::<Vec<_>>())?;
    }
    growth(folder, results)
}

/// All operations of `tickwheel` in one drawing: it shows which of them grow with the number of timers.
fn growth(folder: &Path, results: &Results) -> Fallible {
    let tables = TABLES.iter().filter(|table| table.suite == "structures" && table.drawn);
    let lines = tables.enumerate().map(|(index, table)| {
        let label = table.name().trim_start_matches("structures-").replace("-uniform", "");
        line(index, label, 2, points(table, OURS, results))
    });
    let title = format!("{OURS}: every operation against the number of timers");
    let titles = [&*title, "pending timers", "nanoseconds"];
    let path = folder.join("growth.svg");
    draw(&path, titles, results.place("structures"), &lines.collect::<Vec<_>>())
}

fn line(index: usize, label: String, width: u32, points: Vec<(f64, f64)>) -> Line {
    Line { label, colour: COLOURS[index % COLOURS.len()], width, dotted: true, points }
}

/// The medians of a peer over the sizes.
fn points(table: &Table, peer: &str, results: &Results) -> Vec<(f64, f64)> {
    let (figure, _) = table.figures()[0];
    let point = |size| {
        let case = table.case(peer, size);
        Some((size as f64, results.spread(&case, figure)?.median))
    };
    let sizes = sizes(results, table.suite, table.work, table.delays);
    sizes.into_iter().filter_map(point).filter(|(_, y)| *y > 0.0).collect()
}

/// Draws lines under a title; the others are those of the axes, across and up.
fn draw(path: &Path, [title, across, up]: [&str; 3], caption: &str, lines: &[Line]) -> Fallible {
    let all = || lines.iter().flat_map(|line| &line.points);
    let (sizes, values) = (range(all().map(|p| p.0), 1.0), range(all().map(|p| p.1), 1.3));
    if sizes.start >= sizes.end {
        // One size is no line.
        return Ok(());
    }
    let frame = Frame {
        title,
        caption,
        size: (960, 600),
        legend: 240,
        dotted_legend: false,
        dot: 4,
        across: Axis { title: across, range: sizes, number: quantity },
        up: Axis { title: up, range: values, number: quantity },
        up_room: 80,
    };
    let drawn = drawing::over_logarithmic(path, &frame, lines);
    drawn.map_err(|error| format!("{}: {error}", path.display()))
}

/// From the least to the most, and a factor of room on both sides.
fn range(values: impl Iterator<Item = f64>, room: f64) -> Range<f64> {
    let start = (f64::INFINITY, 0.0_f64);
    let (min, max) = values.fold(start, |(min, max), v| (min.min(v), max.max(v)));
    min / room..max * room
}

/// A number in its shortest readable form.
fn quantity(value: f64) -> String {
    match value {
        1e6.. => format!("{} M", value / 1e6),
        1e3.. => format!("{} k", value / 1e3),
        _ => format!("{value}"),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
