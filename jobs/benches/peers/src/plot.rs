//! Drawings in `jobs/docs/plots/`: how late jobs start, as the share that has started by then, and
//! rates as bars. The comparison on Redis has this file, too.

use std::fs;
use std::path::Path;

use plotters::prelude::*;

use crate::Fallible;
use crate::plan::{BARS, CONTENDERS, DOTTED, LATENESS, OURS, PLOT_PREFIX};
use crate::results::{Case, Results, docs};

const SIZE: (u32, u32) = (960, 560);
/// The room for the legend, on the right.
const LEGEND: u32 = 230;
const FONT: &str = "sans-serif";
/// What is earlier than this, or early, is drawn here.
const LEAST_MS: f64 = 0.02;
/// Colours that can be told apart, also by those who see fewer.
const COLOURS: [RGBColor; 6] = [
    RGBColor(204, 51, 17),
    RGBColor(0, 119, 187),
    RGBColor(0, 153, 136),
    RGBColor(238, 119, 51),
    RGBColor(170, 51, 119),
    RGBColor(120, 120, 120),
];

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws whatever there are figures for.
pub(crate) fn write(results: &Results) -> Fallible {
    let folder = docs().join("plots");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let file = |name: &str| folder.join(format!("{PLOT_PREFIX}{name}.svg"));
    let at = |name: &str, drawn: Drawn| drawn.map_err(|error| format!("{name}: {error}"));
    for (name, row, title, only) in LATENESS {
        let wanted = |case: &Case| only.is_none_or(|only| case.contender == only);
        at(name, lateness(&file(name), results, row, title, &wanted))?;
    }
    for row in BARS {
        at(row, bars(&file(row), row, results))?;
    }
    Ok(())
}

fn colour(contender: &str) -> RGBColor {
    let place = CONTENDERS.iter().position(|known| known.name == contender).unwrap_or(0);
    COLOURS[place % COLOURS.len()]
}

fn plain_label(case: &Case) -> String {
    let package = CONTENDERS.iter().find(|known| known.name == case.contender).map(|c| c.package);
    let name = package.filter(|package| !package.is_empty()).unwrap_or("the disk alone");
    format!("{name}, {}", case.level)
}

/// The share of jobs that have started so long after their time.
fn lateness(
    path: &Path,
    results: &Results,
    row: &str,
    title: &str,
    wanted: &dyn Fn(&Case) -> bool,
) -> Drawn {
    let cases: Vec<Case> = results.cases(row).into_iter().filter(wanted).collect();
    let points = |case: &Case| -> Vec<(f64, f64)> {
        let parts = QUANTILES.iter().filter_map(|part| {
            let late = results.spread(case, &format!("q{part}"))?.median;
            Some((late.max(LEAST_MS), *part))
        });
        parts.collect()
    };
    let lines: Vec<(&Case, Vec<(f64, f64)>)> =
        cases.iter().map(|case| (case, points(case))).filter(|(_, line)| line.len() > 1).collect();
    let Some(most) = lines.iter().flat_map(|(_, line)| line).map(|p| p.0).reduce(f64::max) else {
        return Ok(());
    };
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (chart_area, caption_area) = area.split_vertically(SIZE.1 - 28);
    caption_area.draw(&Text::new(results.place(row), (12, 6), (FONT, 12).into_font()))?;
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(title, (FONT, 20))
        .margin(12)
        .margin_right(LEGEND + 16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d((LEAST_MS..most * 1.2).log_scale(), 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("milliseconds after its time (what is early stands at the left edge)")
        .y_desc("share of the jobs")
        .x_label_formatter(&|value| format!("{value}"))
        .light_line_style(BLACK.mix(0.05))
        .bold_line_style(BLACK.mix(0.15))
        .label_style((FONT, 14))
        .draw()?;
    for (index, (case, line)) in lines.iter().enumerate() {
        let style = style(case);
        chart.draw_series([PathElement::new(line.clone(), style)])?;
        if case.level == DOTTED {
            let dots =
                line.iter().map(|&point| Circle::new(point, 3, colour(&case.contender).filled()));
            chart.draw_series(dots)?;
        }
        let (x, y) = ((SIZE.0 - LEGEND) as i32, 56 + 20 * index as i32);
        area.draw(&PathElement::new([(x, y), (x + 24, y)], style))?;
        if case.level == DOTTED {
            area.draw(&Circle::new((x + 12, y), 3, colour(&case.contender).filled()))?;
        }
        area.draw(&Text::new(plain_label(case), (x + 30, y - 6), (FONT, 13).into_font()))?;
    }
    area.present()?;
    Ok(())
}

/// The quantiles that are drawn.
pub(crate) const QUANTILES: [f64; 20] = [
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998,
    0.999, 0.9995, 1.0,
];

fn style(case: &Case) -> ShapeStyle {
    colour(&case.contender).stroke_width(if case.contender == OURS { 3 } else { 2 })
}

/// Jobs a second, a bar for each contender and level, on a logarithmic scale.
fn bars(path: &Path, row: &str, results: &Results) -> Drawn {
    let mut measured: Vec<(Case, f64)> = results
        .cases(row)
        .into_iter()
        .filter_map(|case| Some((case.clone(), results.spread(&case, "jobs_per_s")?.median)))
        .collect();
    measured.sort_by_key(|(case, _)| case.level != DOTTED);
    let Some(most) = measured.iter().map(|(_, rate)| *rate).reduce(f64::max) else {
        return Ok(());
    };
    let least = measured.iter().map(|(_, rate)| *rate).fold(most, f64::min);
    let title =
        crate::plan::ROWS.iter().find(|known| known.name == row).map_or(row, |row| row.title);
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
        .x_label_formatter(&|value| crate::report::number(*value))
        .bold_line_style(BLACK.mix(0.15))
        .light_line_style(BLACK.mix(0.05))
        .label_style((FONT, 14))
        .draw()?;
    for (index, (case, rate)) in measured.iter().enumerate() {
        let (low, high) = (index as f64 + 0.15, index as f64 + 0.85);
        let bar = Rectangle::new([(left, low), (*rate, high)], colour(&case.contender).filled());
        chart.draw_series([bar])?;
        let number = crate::report::number(*rate);
        let at = chart.backend_coord(&(*rate, high));
        area.draw(&Text::new(number, (at.0 + 6, at.1 + 4), (FONT, 13).into_font()))?;
        let label = plain_label(case);
        area.draw(&Text::new(label, (12, at.1 + 4), (FONT, 13).into_font()))?;
    }
    area.present()?;
    Ok(())
}
