//! Draws the state of the screen. No I/O.

use std::collections::HashMap;

use k8s_openapi::jiff::Timestamp;
use operetta_host::terminal;
use ratatui::{
    Frame,
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use super::{
    app::App,
    details, format,
    help::{self, HELP},
    layout::{GAP, widths},
    page::{Page, Prompt},
    style::{Palette, Styled, Tone},
    table::{Cell, Health, Table},
    text::{cut, fit, width, wrapped},
};

/// The maximum number of lines for problems.
const PROBLEM_LINES: usize = 3;

/// Draws the screen. `problem` is the error of the watch, if it fails.
pub fn draw(
    frame: &mut Frame<'_>,
    app: &mut App,
    problem: Option<&str>,
    palette: Palette,
    now: Timestamp,
) {
    let area = frame.area();
    let mut screen = Screen {
        buffer: frame.buffer_mut(),
        area,
        palette,
    };

    let now = app.paused.unwrap_or(now).as_second();
    let room = usize::from(area.width);
    app.table.arrange();

    screen.line(
        0,
        &title(app),
        palette.style(Tone::Title).add_modifier(Modifier::REVERSED),
    );
    screen.line(1, &summary(app, room), palette.style(Tone::Plain));

    let problems = problems(app, problem);
    let tone = if problem.is_some() {
        Tone::Bad
    } else {
        Tone::Warning
    };

    let mut top = 2;
    for line in problems
        .iter()
        .flat_map(|text| wrapped(text, room))
        .take(PROBLEM_LINES)
    {
        screen.line(top, &line, palette.style(tone));
        top += 1;
    }

    let last = area.height.saturating_sub(1);
    let inside = Rect {
        y: top,
        height: last.saturating_sub(top),
        ..area
    };

    app.page_height = usize::from(inside.height.saturating_sub(1)).max(1);

    if app.pages.is_empty() {
        screen.table(inside, &mut app.table, now);
        if app.table.len() == 0 && inside.height > 1 {
            screen.line(
                inside.y + 1,
                empty(app, problem),
                palette.style(Tone::Faint),
            );
        }
    } else {
        screen.page(inside, app, now);
    }

    match &app.prompt {
        Some(prompt) => screen.line(last, &typed(prompt), palette.style(Tone::Plain)),
        None => screen.line(last, &hints(app, room), palette.style(Tone::Faint)),
    }
}

/// The part of the terminal that is drawn to.
struct Screen<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    palette: Palette,
}

impl Screen<'_> {
    fn line(&mut self, y: u16, text: &str, style: Style) {
        if y < self.area.height {
            let text = fit(text, usize::from(self.area.width), false);
            self.buffer.set_string(0, y, text, style);
        }
    }

    fn table(&mut self, inside: Rect, table: &mut Table, now: i64) {
        let columns = table.columns.clone();
        let (sort, is_descending) = table.sort();
        let (rows, selected) = table.window(usize::from(inside.height.saturating_sub(1)));

        let titles: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let arrow = if sort != Some(at) {
                    ""
                } else if is_descending {
                    "↓"
                } else {
                    "↑"
                };
                format!("{}{arrow}", column.title)
            })
            .collect();

        let texts: Vec<Vec<_>> = rows
            .iter()
            .map(|row| row.cells.iter().map(|cell| cell.shown(now)).collect())
            .collect();

        let full = |at: usize| {
            let cells = texts
                .iter()
                .filter_map(|cells| cells.get(at))
                .map(|cell| width(cell));

            // A column of numbers does not move the others when its numbers change.
            let least = if columns[at].is_right {
                columns[at].min
            } else {
                0
            };
            cells
                .max()
                .unwrap_or_default()
                .max(width(&titles[at]))
                .max(least)
        };

        let full: Vec<usize> = (0..columns.len()).map(full).collect();
        let widths = widths(&columns, &full, usize::from(inside.width), sort);

        let joined = |cells: &dyn Fn(usize) -> String| {
            let shown = widths.iter().enumerate().filter_map(|(at, width)| {
                width.map(|width| fit(&cells(at), width, columns[at].is_right))
            });
            shown.collect::<Vec<_>>().join(&" ".repeat(GAP))
        };

        self.line(
            inside.y,
            &joined(&|at| titles[at].clone()),
            self.palette.style(Tone::Title),
        );

        for (y, (row, cells)) in (inside.y + 1..).zip(rows.iter().zip(&texts)) {
            let line = joined(&|at| {
                cells
                    .get(at)
                    .map(|cell| cell.clone().into_owned())
                    .unwrap_or_default()
            });

            let is_selected = usize::from(y - inside.y - 1) == selected;
            self.line(y, &line, self.palette.row(row.health, is_selected));
        }
    }

    fn page(&mut self, inside: Rect, app: &mut App, now: i64) {
        let room = usize::from(inside.width);
        let Some(opening) = app.pages.last() else {
            return;
        };

        let lines = page_lines(app, &opening.page, room, now);
        let height = usize::from(inside.height.saturating_sub(1));
        let lowest = lines.len().saturating_sub(height);
        let first = if opening.follows {
            lowest
        } else {
            opening.first.min(lowest)
        };

        let heading = format!(
            "{}  {}-{}/{}",
            heading(&opening.page),
            first + 1,
            (first + height).min(lines.len()),
            lines.len()
        );

        self.line(inside.y, &heading, self.palette.style(Tone::Title));
        for (y, line) in (inside.y + 1..).zip(lines.iter().skip(first).take(height)) {
            self.line(y, &line.text, self.palette.style(line.tone));
        }

        if let Some(opening) = app.pages.last_mut() {
            opening.first = first;
        }
    }
}

fn page_lines(app: &App, page: &Page, room: usize, now: i64) -> Vec<Styled> {
    let plain = |text: &str| Styled::new(text.to_owned(), Tone::Plain);
    match page {
        Page::Help => HELP.lines().map(plain).collect(),
        Page::Details(key) => {
            let plugins = app.plugins.as_ref();
            match plugins.and_then(|plugins| plugins.get(key)) {
                Some(plugin) => {
                    let activity = plugins.and_then(|plugins| plugins.meter.activity(key));
                    details::lines(key, &plugin.status, activity.as_ref(), room, now)
                }
                None => vec![plain("it no longer exists")],
            }
        }
        Page::Document(_, None) => vec![plain("reading…")],
        Page::Document(_, Some(lines)) => lines.iter().map(|line| plain(line)).collect(),
        Page::Log(_, lines) if lines.is_empty() => vec![plain("no lines yet")],
        Page::Log(_, lines) => lines
            .iter()
            .flat_map(|line| wrapped(line, room))
            .map(|line| plain(&line))
            .collect(),
    }
}

fn heading(page: &Page) -> String {
    match page {
        Page::Help => "Keys".to_owned(),
        Page::Details(key) => format!("Plugin {}", terminal::line(&key.to_string())),
        Page::Document(key, _) => format!("YAML of {}", terminal::line(&key.to_string())),
        Page::Log(key, _) => format!("Log of {}", terminal::line(&key.to_string())),
    }
}

/// The first line: the objects and their number.
fn title(app: &App) -> String {
    let name = app
        .opened
        .as_ref()
        .map_or(app.target.kind.as_str(), |opened| &opened.name);

    let namespace = match &app.opened {
        Some(opened) if !opened.is_namespaced => "cluster",
        Some(opened) => opened.namespace.as_deref().unwrap_or("all"),
        None if app.target.all_namespaces => "all",
        None => app.target.namespace.as_deref().unwrap_or("default"),
    };

    let mut title = format!(
        " operetta top  {}({})[",
        terminal::line(name),
        terminal::line(namespace)
    );

    let (shown, all) = (app.table.len(), app.table.rows().len());
    title += &if shown == all {
        format!("{all}]")
    } else {
        format!("{shown}/{all}]")
    };

    if !app.target.labels.is_empty() {
        title += &format!("  -l {}", terminal::line(&app.target.labels));
    }
    if !app.table.filter().text().is_empty() {
        title += &format!("  /{}", terminal::line(app.table.filter().text()));
    }
    if app.paused.is_some() {
        title += "  PAUSED";
    }

    title
}

/// The second line: the health of the objects, the rates of all Plugins and, if there is room, the
/// replica.
fn summary(app: &App, room: usize) -> String {
    let mut counts: HashMap<Health, usize> = HashMap::new();

    app.table
        .rows()
        .iter()
        .for_each(|row| *counts.entry(row.health).or_default() += 1);

    let names = [
        (Health::Ready, "ready"),
        (Health::Degraded, "degraded"),
        (Health::NotReady, "not ready"),
        (
            Health::Unknown,
            if app.plugins.is_some() {
                "unknown"
            } else {
                "without a Ready condition"
            },
        ),
    ];

    let counted = names
        .iter()
        .filter_map(|(health, name)| Some(format!("{} {name}", counts.get(health)?)));
    let mut summary = format!(" {}", counted.collect::<Vec<_>>().join("  "));

    if let Some(plugins) = &app.plugins {
        let total = plugins.total();
        summary += " | ";
        if let Some(rates) = &total.rates {
            let [cpu, reconciles, errors] =
                [rates.cpu * 100.0, rates.reconciles, rates.errors].map(format::rate);
            summary += &format!("cpu {cpu}%  rate {reconciles}/s  err {errors}/s  ");
        }

        summary += &format!("queue {:.0}", total.queue);
        let replica = match app.scraped.replicas.as_slice() {
            [] => String::new(),
            [one] => format!(" | replica {one}"),
            all => format!(" | {} replicas", all.len()),
        };

        if width(&summary) + width(&replica) <= room {
            summary += &replica;
        }
    }

    summary
}

/// The last line: as many keys as fit.
fn hints(app: &App, room: usize) -> String {
    let mut line = String::new();
    for hint in help::hints(app) {
        let before = if line.is_empty() { " " } else { "  " };
        if width(&line) + before.len() + width(hint) > room {
            break;
        }

        line += before;
        line += hint;
    }

    line
}

fn problems(app: &App, problem: Option<&str>) -> Vec<String> {
    let watch = problem.map(|text| format!(" {}", terminal::line(text)));
    watch
        .into_iter()
        .chain(
            app.scraped
                .missing
                .iter()
                .map(|text| format!(" no metrics: {text}")),
        )
        .collect()
}

fn empty(app: &App, problem: Option<&str>) -> &'static str {
    match (app.is_loaded(), problem) {
        (_, Some(_)) => "",
        (false, None) => "reading…",
        (true, None) if app.table.rows().is_empty() => {
            "none (0 shows all namespaces, : another kind)"
        }
        (true, None) => "none matches the filter (Esc clears it)",
    }
}

fn typed(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Filter(text) => format!("/{}█", terminal::line(text)),
        Prompt::Kind(text) => format!(":{}█", terminal::line(text)),
        Prompt::Namespace(text) => format!("namespace (all for all): {}█", terminal::line(text)),
    }
}

/// The rows as printed without a terminal: the titles, then the cells.
pub fn cells(table: &mut Table, now: i64) -> Vec<Vec<String>> {
    table.arrange();
    let is_shown: Vec<bool> = table
        .columns
        .iter()
        .map(|column| !column.is_extra)
        .collect();

    let shown = |cells: Vec<String>| {
        cells
            .into_iter()
            .zip(&is_shown)
            .filter_map(|(cell, shown)| shown.then_some(cell))
            .collect()
    };

    let titles = shown(
        table
            .columns
            .iter()
            .map(|column| column.title.clone())
            .collect(),
    );

    let text = |cell: &Cell| cut(&cell.shown(now), 120);
    let rows = table
        .shown()
        .map(|row| shown(row.cells.iter().map(text).collect()));
    std::iter::once(titles).chain(rows).collect()
}
