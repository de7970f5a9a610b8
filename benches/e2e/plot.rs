//! The plot of a run, in SVG. Bars are medians, their whiskers the least and the greatest round.

use std::{collections::BTreeMap, error::Error, path::Path};

use operetta_testkit::{bench::Samples, usage::megabytes};
use plotters::{
    coord::Shift,
    prelude::{
        ChartBuilder, DrawingArea, IntoDrawingArea, IntoFont, LineSeries, PathElement, RGBColor,
        Rectangle, SVGBackend, Text, WHITE,
    },
    style::{Color, Palette, Palette99},
};

use crate::{
    contestant::Name,
    figures::{Figures, millis},
};

const SIZE: (u32, u32) = (960, 640);
const INK: RGBColor = RGBColor(40, 40, 40);

/// A panel of bars: its title, and the groups with their names.
type Groups = (&'static str, &'static [(&'static str, fn(&Figures) -> f64)]);

const CPU: Groups = (
    "CPU for each Foo (ms)",
    &[
        ("50 a second", |of| millis(of.paced_cpu)),
        ("flat out", |of| millis(of.flat_cpu)),
    ],
);
const MEMORY: Groups = (
    "Memory (MB)",
    &[
        ("resident", |of| megabytes(of.memory.rss)),
        ("anonymous", |of| megabytes(of.memory.anonymous)),
    ],
);
const RATE: Groups = ("Foos a second, flat out", &[("", |of| of.rate)]);

type Rounds = BTreeMap<Name, Vec<Figures>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// Draws the plot into a file.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn draw(rounds: &Rounds, path: &Path) -> anyhow::Result<()> {
    let drawn = || -> Drawn {
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let panels = root.split_evenly((2, 2));
        latencies(&panels[0], rounds)?;
        bars(&panels[1], rounds, CPU)?;
        bars(&panels[2], rounds, RATE)?;
        bars(&panels[3], rounds, MEMORY)?;
        root.present()?;
        Ok(())
    };
    drawn().map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// Draws which share of the Foos has its Deployment within a time, of all rounds together.
fn latencies(area: &Area<'_>, rounds: &Rounds) -> Drawn {
    let of = |turns: &[Figures]| {
        let mut all: Vec<f64> = turns
            .iter()
            .flat_map(|turn| turn.latencies.iter().copied().map(millis))
            .collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let all: BTreeMap<Name, Vec<f64>> = rounds
        .iter()
        .map(|(name, turns)| (*name, of(turns)))
        .collect();
    let slowest = all
        .values()
        .map(|all| all[all.len() * 99 / 100])
        .fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(
            "Share of Foos with a Deployment after ms, 50 a second",
            font(15),
        )
        .margin(12)
        .x_label_area_size(24)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..slowest * 1.1, 0.0..1.0)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .label_style(font(12))
        .draw()?;
    for (name, all) in &all {
        let line = all
            .iter()
            .enumerate()
            .map(|(rank, ms)| (*ms, (rank + 1) as f64 / all.len() as f64));
        let color = color(*name);
        let drawn = chart.draw_series(LineSeries::new(line, color.stroke_width(2)))?;
        drawn
            .label(name.to_string())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .label_font(font(12))
        .background_style(WHITE)
        .border_style(INK)
        .draw()?;
    Ok(())
}

/// Draws a bar for each controller in each group.
fn bars(area: &Area<'_>, rounds: &Rounds, (title, groups): Groups) -> Drawn {
    let samples = |turns: &[Figures], value: fn(&Figures) -> f64| {
        Samples::new(turns.iter().map(value).collect())
    };
    let greatest = groups.iter().flat_map(|(_, value)| {
        rounds
            .values()
            .map(|turns| samples(turns, *value).spread()[1])
    });
    let highest = greatest.fold(0.0, f64::max);
    let width = rounds.len() as f64 + 1.0;
    let mut chart = ChartBuilder::on(area)
        .caption(title, font(15))
        .margin(12)
        .x_label_area_size(24)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..width * groups.len() as f64, 0.0..highest * 1.15)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(WHITE)
        .label_style(font(12))
        .draw()?;
    for (at, (group, value)) in groups.iter().enumerate() {
        let left = at as f64 * width + 0.5;
        for (place, (name, turns)) in rounds.iter().enumerate() {
            let samples = samples(turns, *value);
            let (from, to) = (left + place as f64 + 0.1, left + place as f64 + 0.9);
            let ([least, greatest], median) = (samples.spread(), samples.median());
            let middle = f64::midpoint(from, to);
            chart.draw_series([Rectangle::new(
                [(from, 0.0), (to, median)],
                color(*name).filled(),
            )])?;
            chart.draw_series([PathElement::new([(middle, least), (middle, greatest)], INK)])?;
            chart.draw_series([Text::new(
                short(median),
                (from, greatest + highest * 0.06),
                font(12),
            )])?;
        }
        chart.draw_series([Text::new(
            (*group).to_owned(),
            (left, highest * 1.14),
            font(12),
        )])?;
    }
    Ok(())
}

fn short(value: f64) -> String {
    format!("{value:.*}", if value < 10.0 { 2 } else { 0 })
}

fn font(size: i32) -> plotters::style::TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

fn color(name: Name) -> RGBColor {
    let (red, green, blue) = Palette99::COLORS[name as usize];
    RGBColor(red, green, blue)
}
