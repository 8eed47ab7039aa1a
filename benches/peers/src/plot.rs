//! Drawings of the figures over the sizes, in `docs/plots/`: both axes logarithmic, a line for each
//! peer, and under it where it was measured.

use std::fs;
use std::path::Path;

use plotters::prelude::*;

use crate::report::OURS;
use crate::report::layout::{TABLES, Table};
use crate::results::{Results, docs};

const SIZE: (u32, u32) = (960, 600);
/// The room for the legend, on the right.
const LEGEND: u32 = 240;
const FONT: &str = "sans-serif";

/// Colours that can be told apart, also by those who see fewer.
const COLOURS: [RGBColor; 9] = [
    RGBColor(204, 51, 17),
    RGBColor(0, 119, 187),
    RGBColor(0, 153, 136),
    RGBColor(238, 119, 51),
    RGBColor(51, 187, 238),
    RGBColor(170, 51, 119),
    RGBColor(120, 120, 120),
    RGBColor(153, 153, 51),
    RGBColor(34, 34, 34),
];

struct Line {
    label: String,
    /// Ours is thicker.
    ours: bool,
    points: Vec<(f64, f64)>,
}

struct Drawing<'a> {
    title: String,
    across: &'a str,
    up: &'a str,
    caption: &'a str,
    lines: Vec<Line>,
}

/// Draws every table that wants it and has figures for two sizes, and the growth of ours.
pub(crate) fn write(results: &Results) -> Result<(), String> {
    let folder = docs().join("plots");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for table in TABLES.iter().filter(|table| table.drawn) {
        let (figure, _) = table.figures()[0];
        let peers = results.peers(table.suite, table.work, table.delays);
        let lines = peers
            .into_iter()
            .map(|peer| Line {
                label: peer.to_owned(),
                ours: peer == OURS,
                points: points(table, peer, figure, results),
            })
            .collect();
        let drawing = Drawing {
            title: capital(table.title),
            across: table.of,
            up: table.unit,
            caption: results.machine(table.suite),
            lines,
        };
        draw(&folder.join(format!("{}.svg", table.name())), &drawing)?;
    }
    growth(&folder, results)
}

/// All that ours does, in one drawing: what grows with the number of timers, and what does not.
fn growth(folder: &Path, results: &Results) -> Result<(), String> {
    let tables = TABLES.iter().filter(|table| table.suite == "structures" && table.drawn);
    let lines = tables
        .map(|table| Line {
            label: table.name().trim_start_matches("structures-").replace("-uniform", ""),
            ours: false,
            points: points(table, OURS, table.figures()[0].0, results),
        })
        .collect();
    let drawing = Drawing {
        title: format!("{OURS}: every operation against the number of timers"),
        across: "pending timers",
        up: "nanoseconds",
        caption: results.machine("structures"),
        lines,
    };
    draw(&folder.join("growth.svg"), &drawing)
}

/// The medians of a peer over the sizes.
fn points(table: &Table, peer: &str, figure: &str, results: &Results) -> Vec<(f64, f64)> {
    let sizes = results.sizes(table.suite, table.work, table.delays);
    let point = |size| {
        let case = table.case(peer, size);
        Some((size as f64, results.spread(&case, figure)?.median))
    };
    sizes.into_iter().filter_map(point).filter(|(_, y)| *y > 0.0).collect()
}

fn draw(path: &Path, drawing: &Drawing<'_>) -> Result<(), String> {
    let all = || drawing.lines.iter().flat_map(|line| &line.points);
    let (across, up) = (range(all().map(|p| p.0), 1.0), range(all().map(|p| p.1), 1.3));
    if across.0 >= across.1 {
        // One size is no line.
        return Ok(());
    }
    render(path, drawing, across, up).map_err(|error| format!("{}: {error}", path.display()))
}

/// From the least to the most, and a factor of room on both sides.
fn range(values: impl Iterator<Item = f64>, room: f64) -> (f64, f64) {
    let start = (f64::INFINITY, 0.0_f64);
    let (min, max) = values.fold(start, |(min, max), v| (min.min(v), max.max(v)));
    (min / room, max * room)
}

fn render(
    path: &Path,
    drawing: &Drawing<'_>,
    across: (f64, f64),
    up: (f64, f64),
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (chart_area, caption_area) = area.split_vertically(SIZE.1 - 28);
    caption_area.draw(&Text::new(drawing.caption, (12, 6), (FONT, 12).into_font()))?;
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(&drawing.title, (FONT, 20))
        .margin(12)
        .margin_right(LEGEND + 16)
        .x_label_area_size(48)
        .y_label_area_size(80)
        .build_cartesian_2d((across.0..across.1).log_scale(), (up.0..up.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(drawing.across)
        .y_desc(drawing.up)
        .x_label_formatter(&|value| quantity(*value))
        .y_label_formatter(&|value| quantity(*value))
        .light_line_style(BLACK.mix(0.05))
        .bold_line_style(BLACK.mix(0.15))
        .label_style((FONT, 14))
        .draw()?;
    for (index, line) in drawing.lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let style = colour.stroke_width(if line.ours { 4 } else { 2 });
        chart.draw_series([PathElement::new(line.points.clone(), style)])?;
        let dots = line.points.iter().map(|&point| Circle::new(point, 4, colour.filled()));
        chart.draw_series(dots)?;
        // The legend stands beside the lines, not over them.
        let (x, y) = ((SIZE.0 - LEGEND) as i32, 56 + 20 * index as i32);
        area.draw(&PathElement::new([(x, y), (x + 24, y)], style))?;
        area.draw(&Text::new(line.label.as_str(), (x + 30, y - 6), (FONT, 13).into_font()))?;
    }
    area.present()?;
    Ok(())
}

/// A number as short as it can be read.
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
