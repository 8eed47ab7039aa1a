//! Drawings in `docs/plots/`: the figures over the sizes, with a line for each peer on two logarithmic axes, and
//! how late each peer runs closures. Each drawing says where it was measured.

use std::ops::Range;
use std::path::Path;

use harness::Fallible;
use harness::drawing::{self, Axis, Bar, COLOURS, Frame, Line};

use crate::layout::{OURS, TABLES, Table};
use crate::results::{Results, peers, sizes};
use crate::tables;

/// Draws every table that is marked for it and has figures for two sizes, and how late each peer runs closures.
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
    lateness(folder, results)
}

/// How late each peer runs a million closures: from the half of them to 99 in a hundred, and on to the last. The
/// peers stand in the order of their 99 in a hundred.
fn lateness(folder: &Path, results: &Results) -> Fallible {
    let table = TABLES.iter().find(|table| table.name() == "threads-spread");
    let table = table.ok_or("no table is named threads-spread")?;
    let sizes = sizes(results, table.suite, table.work, table.delays);
    let Some(&size) = sizes.first() else { return Ok(()) };
    let values = |peer| {
        let of = |figure| Some(results.spread(&table.case(peer, size), figure)?.median);
        Some((peer, [of("p50")?, of("p99")?, of("max")?]))
    };
    let peers = peers(results, table.suite, table.work, table.delays);
    let mut measured: Vec<(&str, [f64; 3])> = peers.into_iter().filter_map(values).collect();
    measured.sort_by(|a, b| a.1[1].total_cmp(&b.1[1]));
    let bars = measured.iter().map(|&(peer, values)| Bar {
        label: plain(&tables::label(table.suite, peer, results)),
        colour: if peer == OURS { COLOURS[0] } else { COLOURS[6] },
        values,
        note: format!("99 %: {} ms", tables::number(values[1])),
    });
    let bars: Vec<Bar> = bars.collect();
    let late = range(measured.iter().flat_map(|(_, values)| *values), 1.0);
    let frame = Frame {
        title: "How late a million closures run, due over two seconds",
        caption: results.place(table.suite),
        size: (960, 110 + 34 * bars.len() as u32),
        legend: 230,
        dotted_legend: false,
        dot: 0,
        across: Axis {
            title: "milliseconds late: half of them, 99 in a hundred (the bar), all (the line); *: some ran early",
            // On the right is room for the notes.
            range: late.start / 2.0..late.end * 6.0,
            number: |value| format!("{value}"),
        },
        up: Axis { title: "", range: 0.0..1.0, number: |_| String::new() },
        up_room: 0,
    };
    let path = folder.join("threads-lateness.svg");
    drawing::bars(&path, &frame, &bars).map_err(|error| format!("{}: {error}", path.display()))
}

/// A label of a table without the marks of a page. The star of a peer that is not exact stays.
fn plain(label: &str) -> String {
    label.replace('\\', "")
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
