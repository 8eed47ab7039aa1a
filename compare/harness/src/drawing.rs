//! Drawings over a logarithmic axis: lines with a legend beside them, or a bar for each peer. Below is a line
//! that says where they were measured.

use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

pub const FONT: &str = "sans-serif";

/// Colours that a colour-blind reader can tell apart too.
pub const COLOURS: [RGBColor; 9] = [
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

/// Why something could not be drawn.
pub type Drawn = Result<(), Box<dyn std::error::Error>>;

pub struct Line {
    pub label: String,
    pub colour: RGBColor,
    pub width: u32,
    /// Whether its points are dots.
    pub dotted: bool,
    pub points: Vec<(f64, f64)>,
}

/// Three values of a population, such as quantiles: a bar from the first to the second, and a thin line to the third.
pub struct Bar {
    pub label: String,
    pub colour: RGBColor,
    pub values: [f64; 3],
    /// Stands right of the thin line.
    pub note: String,
}

/// The labels beside the lines.
pub struct Frame<'a> {
    pub title: &'a str,
    pub caption: &'a str,
    pub size: (u32, u32),
    /// The room for the legend, on the right.
    pub legend: u32,
    /// Whether the legend shows dots, too.
    pub dotted_legend: bool,
    /// How large dots are.
    pub dot: i32,
    pub across: Axis<'a>,
    pub up: Axis<'a>,
    /// The room for the numbers of the upward axis.
    pub up_room: u32,
}

pub struct Axis<'a> {
    pub title: &'a str,
    pub range: Range<f64>,
    pub number: fn(f64) -> String,
}

/// Draws lines over two logarithmic axes.
pub fn over_logarithmic(path: &Path, frame: &Frame<'_>, lines: &[Line]) -> Drawn {
    draw(path, frame, frame.up.range.clone().log_scale(), lines)
}

/// Draws lines over a logarithmic axis across; the axis upward is linear.
pub fn over_even(path: &Path, frame: &Frame<'_>, lines: &[Line]) -> Drawn {
    draw(path, frame, frame.up.range.clone(), lines)
}

fn draw<Y>(path: &Path, frame: &Frame<'_>, up: Y, lines: &[Line]) -> Drawn
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let (width, height) = frame.size;
    let area = SVGBackend::new(path, frame.size).into_drawing_area();
    area.fill(&WHITE)?;
    let (chart_area, caption_area) = area.split_vertically(height - 28);
    caption_area.draw(&Text::new(frame.caption, (12, 6), (FONT, 12).into_font()))?;
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(frame.title, (FONT, 20))
        .margin(12)
        .margin_right(frame.legend + 16)
        .x_label_area_size(48)
        .y_label_area_size(frame.up_room)
        .build_cartesian_2d(frame.across.range.clone().log_scale(), up)?;
    chart
        .configure_mesh()
        .x_desc(frame.across.title)
        .y_desc(frame.up.title)
        .x_label_formatter(&|value| (frame.across.number)(*value))
        .y_label_formatter(&|value| (frame.up.number)(*value))
        .light_line_style(BLACK.mix(0.05))
        .bold_line_style(BLACK.mix(0.15))
        .label_style((FONT, 14))
        .draw()?;
    for (index, line) in lines.iter().enumerate() {
        let (style, filled) = (line.colour.stroke_width(line.width), line.colour.filled());
        chart.draw_series([PathElement::new(line.points.clone(), style)])?;
        if line.dotted {
            let dots = line.points.iter().map(|&point| Circle::new(point, frame.dot, filled));
            chart.draw_series(dots)?;
        }
        // The legend stands beside the lines, not over them.
        let (x, y) = ((width - frame.legend) as i32, 56 + 20 * index as i32);
        area.draw(&PathElement::new([(x, y), (x + 24, y)], style))?;
        if line.dotted && frame.dotted_legend {
            area.draw(&Circle::new((x + 12, y), frame.dot, filled))?;
        }
        area.draw(&Text::new(line.label.as_str(), (x + 30, y - 6), (FONT, 13).into_font()))?;
    }
    area.present()?;
    Ok(())
}

/// Draws a row for each bar, the first at the top. The labels stand in the legend's room, on the left.
pub fn bars(path: &Path, frame: &Frame<'_>, bars: &[Bar]) -> Drawn {
    let (width, height) = frame.size;
    let area = SVGBackend::new(path, (width, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let (chart_area, caption_area) = area.split_vertically(height - 28);
    caption_area.draw(&Text::new(frame.caption, (12, 6), (FONT, 12).into_font()))?;
    let rows = 0.0..bars.len() as f64;
    let mut chart = ChartBuilder::on(&chart_area)
        .caption(frame.title, (FONT, 20))
        .margin(12)
        .margin_left(frame.legend)
        .x_label_area_size(48)
        .build_cartesian_2d(frame.across.range.clone().log_scale(), rows)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(frame.across.title)
        .x_label_formatter(&|value| (frame.across.number)(*value))
        .light_line_style(BLACK.mix(0.05))
        .bold_line_style(BLACK.mix(0.15))
        .label_style((FONT, 14))
        .draw()?;
    for (index, bar) in bars.iter().enumerate() {
        let middle = (bars.len() - index) as f64 - 0.5;
        let [from, to, end] = bar.values;
        let thick = Rectangle::new([(from, middle - 0.3), (to, middle + 0.3)], bar.colour.filled());
        let thin = PathElement::new([(to, middle), (end, middle)], bar.colour.stroke_width(2));
        chart.draw_series([thick.into_dyn(), thin.into_dyn()])?;
        let (x, y) = chart.backend_coord(&(end, middle));
        area.draw(&Text::new(bar.note.as_str(), (x + 8, y - 6), (FONT, 13).into_font()))?;
        area.draw(&Text::new(bar.label.as_str(), (12, y - 6), (FONT, 13).into_font()))?;
    }
    area.present()?;
    Ok(())
}
