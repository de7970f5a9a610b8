//! The plot of a run, in SVG: memory, file descriptors and threads, and rates over time, with marks
//! for swaps and restarts.

use std::{error::Error, path::Path, time::Duration};

use plotters::{
    coord::Shift,
    prelude::{
        ChartBuilder, DrawingArea, IntoDrawingArea, IntoFont, LineSeries, PathElement, RGBColor,
        SVGBackend, Text, WHITE,
    },
    style::{Color, Palette, Palette99, TextStyle},
};

use crate::{
    disturb::{Kind, Mark},
    readings::Reading,
};

const SIZE: (u32, u32) = (960, 780);
const INK: RGBColor = RGBColor(40, 40, 40);
/// The width of the legends beside the panels.
const LEGEND: u32 = 180;
/// The kinds of marks with their names.
const MARKS: [(Kind, &str, RGBColor); 2] = [
    (Kind::Swap, "swap of the code", RGBColor(165, 190, 235)),
    (
        Kind::Restart,
        "restart of the API server",
        RGBColor(225, 130, 0),
    ),
];

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Points of value by second.
type Points = Vec<(f64, f64)>;

/// A panel: its title and its lines with their names.
struct Panel {
    title: &'static str,
    lines: Vec<(&'static str, Points)>,
}

/// Draws the plot into a file.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn draw(
    time: Duration,
    readings: &[Reading],
    marks: &[Mark],
    path: &Path,
) -> anyhow::Result<()> {
    let drawn = || -> Drawn {
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, panel) in root.split_evenly((3, 1)).iter().zip(panels(readings)) {
            draw_panel(area, &panel, time, marks)?;
        }
        root.present()?;
        Ok(())
    };
    drawn().map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

fn panels(readings: &[Reading]) -> [Panel; 3] {
    let line = |value: fn(&Reading) -> f64| -> Points {
        readings
            .iter()
            .map(|reading| (reading.at.as_secs_f64(), value(reading)))
            .collect()
    };
    let rate = |value: fn(&Reading) -> f64| -> Points {
        let pairs = readings.windows(2).map(|pair| [&pair[0], &pair[1]]);
        let rates = pairs.map(|[one, other]| {
            let elapsed = (other.at - one.at).as_secs_f64();
            (
                other.at.as_secs_f64(),
                (value(other) - value(one)) / elapsed,
            )
        });
        rates.collect()
    };
    [
        Panel {
            title: "Memory of the host (MB)",
            lines: vec![
                ("resident", line(|of| of.rss)),
                ("anonymous", line(|of| of.anonymous)),
            ],
        },
        Panel {
            title: "Open file descriptors and threads of the host",
            lines: vec![
                ("file descriptors", line(|of| of.files)),
                ("threads", line(|of| of.threads)),
            ],
        },
        Panel {
            title: "A second",
            lines: vec![
                ("reconciles", rate(|of| of.metrics.reconciles)),
                ("new Foos", rate(|of| of.foos)),
            ],
        },
    ]
}

fn draw_panel(area: &Area<'_>, panel: &Panel, time: Duration, marks: &[Mark]) -> Drawn {
    let (left, right) = area.split_horizontally(SIZE.0 - LEGEND);
    let (unit, seconds) = if time > Duration::from_secs(600) {
        ("min", 60.0)
    } else {
        ("s", 1.0)
    };
    let values = panel
        .lines
        .iter()
        .flat_map(|(_, points)| points)
        .map(|(_, value)| *value);
    let top = values.fold(1.0, f64::max) * 1.15;
    let mut chart = ChartBuilder::on(&left)
        .caption(panel.title, font(15))
        .margin(12)
        .x_label_area_size(24)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..time.as_secs_f64() / seconds, 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .label_style(font(12))
        .x_label_formatter(&|x| format!("{x:.0} {unit}"))
        .draw()?;
    let mut legend = Vec::new();
    for (kind, name, color) in MARKS {
        let lines = marks.iter().filter(|mark| mark.kind == kind).map(|mark| {
            let x = mark.at.as_secs_f64() / seconds;
            PathElement::new([(x, 0.0), (x, top)], color)
        });
        chart.draw_series(lines)?;
        legend.push((name, color));
    }
    for (at, (name, points)) in panel.lines.iter().enumerate() {
        let (red, green, blue) = Palette99::COLORS[at];
        let color = RGBColor(red, green, blue);
        let points = points.iter().map(|(x, value)| (x / seconds, *value));
        chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
        legend.insert(at, (*name, color));
    }
    for ((name, color), y) in legend.into_iter().zip((48..).step_by(20)) {
        right.draw(&PathElement::new([(0, y), (16, y)], color.stroke_width(2)))?;
        right.draw(&Text::new(name, (22, y - 6), font(12)))?;
    }
    Ok(())
}

fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}
