//! Drawings: how late jobs start, as the share that has started by then, and rates as bars.

use std::path::Path;

use plotters::prelude::*;

use super::case::{Case, OURS};
use super::plan::{Lateness, Plan};
use crate::Fallible;
use crate::drawing::{self, Axis, COLOURS, Drawn, FONT, Frame, Line};
use crate::results::Results;
use crate::table::number;

const SIZE: (u32, u32) = (960, 560);
/// The room for the legend of lines, on the right, and of bars, on the left.
const LEGEND: u32 = 230;
/// The left edge: earlier starts are drawn here.
const LEAST_MS: f64 = 0.02;
/// The colours of the contenders, in their order.
const OF_CONTENDERS: [RGBColor; 6] =
    [COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[3], COLOURS[5], COLOURS[6]];

/// Draws every plot that has figures.
pub(super) fn write<R, C>(plan: &Plan<R, C>, results: &Results<Case>, folder: &Path) -> Fallible {
    let own = Path::new(plan.home).join("plots");
    let at = |name: &str, drawn: Drawn| drawn.map_err(|error| format!("{name}: {error}"));
    for drawing in plan.lateness {
        let path = own.join(format!("{}.svg", drawing.name));
        at(drawing.name, lateness(plan, results, drawing, &path))?;
    }
    for row in plan.bars {
        let path = folder.join(format!("{}{row}.svg", plan.plot_prefix));
        at(row, bars(plan, results, row, &path))?;
    }
    Ok(())
}

fn colour<R, C>(plan: &Plan<R, C>, contender: &str) -> RGBColor {
    let place = plan.contenders.iter().position(|known| known.name == contender).unwrap_or(0);
    OF_CONTENDERS[place % OF_CONTENDERS.len()]
}

fn plain_label<R, C>(plan: &Plan<R, C>, case: &Case) -> String {
    let package = plan.contender(&case.contender).map(|contender| contender.package);
    let name = package.filter(|package| !package.is_empty()).unwrap_or("the disk alone");
    format!("{name}, {}", case.level)
}

/// The share of jobs by how late they started: the figures `q0` to `q1`.
fn lateness<R, C>(
    plan: &Plan<R, C>,
    results: &Results<Case>,
    drawing: &Lateness,
    path: &Path,
) -> Drawn {
    let points = |case: &Case| -> Vec<(f64, f64)> {
        let point = |figure: &str| {
            let part = figure.strip_prefix('q')?.parse().ok()?;
            Some((results.spread(case, figure)?.median.max(LEAST_MS), part))
        };
        results.figures(case).into_iter().filter_map(point).collect()
    };
    let cases = results.of_row(drawing.row);
    let lines = cases.into_iter().map(|case| Line {
        label: plain_label(plan, case),
        colour: colour(plan, &case.contender),
        width: if case.contender == OURS { 3 } else { 2 },
        dotted: case.level == plan.dotted,
        points: points(case),
    });
    let lines: Vec<Line> = lines.filter(|line| line.points.len() > 1).collect();
    let Some(most) = lines.iter().flat_map(|line| &line.points).map(|p| p.0).reduce(f64::max)
    else {
        return Ok(());
    };
    let frame = Frame {
        title: drawing.title,
        caption: results.place(drawing.row),
        size: SIZE,
        legend: LEGEND,
        dotted_legend: true,
        dot: 3,
        across: Axis {
            title: "milliseconds after its time (what is early stands at the left edge)",
            range: LEAST_MS..most * 1.2,
            number: |value| format!("{value}"),
        },
        up: Axis {
            title: "share of the jobs",
            range: 0.0..1.0,
            number: |value| format!("{value:.1}"),
        },
        up_room: 64,
    };
    drawing::over_even(path, &frame, &lines)
}

/// Jobs a second, a bar for each contender and level, on a logarithmic scale.
fn bars<R, C>(plan: &Plan<R, C>, results: &Results<Case>, row: &str, path: &Path) -> Drawn {
    let rate = |case| Some((case, results.spread(case, "jobs_per_s")?.median));
    let mut measured: Vec<(&Case, f64)> =
        results.of_row(row).into_iter().filter_map(rate).collect();
    measured.sort_by_key(|(case, _)| case.level != plan.dotted);
    let Some(most) = measured.iter().map(|(_, rate)| *rate).reduce(f64::max) else {
        return Ok(());
    };
    let least = measured.iter().map(|(_, rate)| *rate).fold(most, f64::min);
    let title = plan.row(row).map_or(row, |row| row.title);
    let height = 130 + 34 * measured.len() as u32;
    let area = SVGBackend::new(path, (SIZE.0, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let (chart_area, caption_area) = area.split_vertically(height - 28);
    caption_area.draw(&Text::new(results.place(row), (12, 6), (FONT, 12).into_font()))?;
    let (left, right) = (10_f64.powf(least.log10().floor()), most * 2.5);
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(format!("{title}: jobs a second"), (FONT, 18))
        .margin(12)
        .margin_left(LEGEND)
        .x_label_area_size(36)
        .build_cartesian_2d((left..right).log_scale(), 0.0..measured.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_label_formatter(&|value| number(*value))
        .bold_line_style(BLACK.mix(0.15))
        .light_line_style(BLACK.mix(0.05))
        .label_style((FONT, 14))
        .draw()?;
    for (index, (case, rate)) in measured.iter().enumerate() {
        let (low, high) = (index as f64 + 0.15, index as f64 + 0.85);
        let bar =
            Rectangle::new([(left, low), (*rate, high)], colour(plan, &case.contender).filled());
        chart.draw_series([bar])?;
        let at = chart.backend_coord(&(*rate, high));
        area.draw(&Text::new(number(*rate), (at.0 + 6, at.1 + 4), (FONT, 13).into_font()))?;
        let label = plain_label(plan, case);
        area.draw(&Text::new(label, (12, at.1 + 4), (FONT, 13).into_font()))?;
    }
    area.present()?;
    Ok(())
}
